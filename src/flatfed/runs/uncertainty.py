"""How uncertain estimates of a Hessian are: intervals by Student's t, PyHessian's estimates beside ours, errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatfed.runs.curvature import Estimates, Hessian, PyHessian

#: Probability that two traces of one Hessian are no further below each other than their errors allow, nor above: that
#: of three deviations of a normal distribution.
ALLOWED = 0.99865


@dataclass(frozen=True, kw_only=True)
class Difference:
    """PyHessian's estimate minus ours, the ``error`` that both together allow, and whether it is ``within`` that."""

    difference: float
    error: float
    within: bool


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far PyHessian's estimates are from ours (:func:`agreement`)."""

    top_eigenvalue: Difference
    trace: Difference


@dataclass(frozen=True, kw_only=True)
class OtherEstimate:
    """Another tool's estimate of a cell's number: ``by`` whom, of every seed the ``values``, their mean and deviation.

    ``spread`` is None for one seed; ``difference`` is its mean minus ours, the ``error`` what both means together
    allow, and ``within`` says whether it is in that.
    """

    by: str
    value: float
    spread: float | None
    values: list[float]
    difference: float
    error: float
    within: bool


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Errors of an estimate as shares of it: of its own making, and of the choice of images."""

    estimate: float
    images: float


def agreement(ours: Estimates, theirs: PyHessian) -> Agreement:
    """Return how far two estimates on the same images are apart, what error they allow, and whether it covers that.

    A symmetric matrix has an eigenvalue within ||H v - lambda v|| of lambda. Traces may be half of Student's interval
    of their difference apart, which is wider the fewer the vectors were (``ALLOWED``).
    """

    def compared(estimate: str, error: float) -> Difference:
        own, other = getattr(ours, estimate), getattr(theirs, estimate)
        return Difference(difference=other - own, error=error, within=_within(other - own, error, own))

    errors = [(each.trace_standard_error, each.trace_vectors - 1) for each in (ours, theirs)]
    return Agreement(
        top_eigenvalue=compared("top_eigenvalue", ours.residuals[0] + theirs.residual),
        trace=compared("trace", half_width(errors, ALLOWED)),
    )


def half_width(errors: Sequence[tuple[float, int]], probability: float = 0.975) -> float:
    """Return half the width of the two-sided interval around a sum of independent estimates, by Student's t.

    ``errors``: (standard error, degrees of freedom) of each; those of the sum are Welch's and Satterthwaite's, rounded
    down. ``probability``: of lying below the upper bound. Infinite where an error is.
    """
    squares = [(error * error, freedom) for error, freedom in errors]
    total = sum(square for square, _ in squares)
    if not 0 < total < math.inf:
        return math.sqrt(total)
    from scipy.special import stdtrit

    freedom = 1 / sum((square / total) ** 2 / freedom for square, freedom in squares if square)
    return float(stdtrit(max(1, int(freedom + 1e-9)), probability)) * math.sqrt(total)


def _within(difference: float, error: float, ours: float) -> bool:
    """Return whether an error covers a difference, but for rounding."""
    return abs(difference) <= error + 1e-6 * abs(ours)


def beside(hessians: Sequence[Hessian], metric: str) -> OtherEstimate | None:
    """Return PyHessian's estimate of ``metric`` over the seeds of ``hessians``, None where one of them lacks it.

    Its error is the mean over seeds of :func:`agreement`'s: a bound even where errors do not cancel, such as those of
    traces that were made with the same random vectors.
    """
    values = [hessian.theirs(metric) for hessian in hessians]
    if not values or None in values:
        return None
    ours = statistics.fmean(hessian.value(metric) for hessian in hessians)
    error = statistics.fmean(hessian.difference(metric).error for hessian in hessians)
    difference = statistics.fmean(values) - ours
    return OtherEstimate(
        by="PyHessian",
        value=statistics.fmean(values),
        spread=statistics.stdev(values) if len(values) > 1 else None,
        values=values,
        difference=difference,
        error=error,
        within=_within(difference, error, ours),
    )


def errors(hessians: Sequence[Hessian], metric: str) -> Shares | None:
    """Return the largest errors of one estimate of ``metric`` over the seeds of ``hessians``, None where one has none.

    They are those of :meth:`flatfed.runs.curvature.Hessian.shares`.
    """
    shares = [hessian.shares(metric) for hessian in hessians]
    if not shares or None in shares:
        return None
    return Shares(estimate=max(each.estimate for each in shares), images=max(each.images for each in shares))
