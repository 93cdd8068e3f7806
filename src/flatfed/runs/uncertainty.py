"""Errors of Hessian estimates: confidence intervals, comparison with PyHessian, relative errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flatfed.config.json_document import JsonDocument
from flatfed.config.values import Number

if TYPE_CHECKING:
    from flatfed.runs.curvature import Estimates, Hessian, PyHessian

#: One-sided probability of three standard deviations of a normal distribution.
ALLOWED = 0.99865


class Difference(JsonDocument):
    """PyHessian's estimate minus ours, and whether it is ``within`` its ``error`` up to rounding."""

    difference: Number
    error: Number
    within: bool


class Agreement(JsonDocument):
    """Differences between PyHessian's estimates and ours (:func:`agreement`)."""

    top_eigenvalue: Difference
    trace: Difference


@dataclass(frozen=True, kw_only=True)
class OtherEstimate:
    """Another tool's estimate of a cell's number: mean, sample deviation, and a :class:`Difference` of means."""

    by: str
    value: float
    spread: float | None
    values: list[float]
    difference: float
    error: float
    within: bool


@dataclass(frozen=True, kw_only=True)
class RelativeErrors:
    """Relative errors: residual of an eigenvalue or standard error of a trace; image sampling."""

    estimate: float
    images: float


def agreement(ours: Estimates, theirs: PyHessian) -> Agreement:
    """Return the differences between two estimates of one Hessian.

    The error of an eigenvalue is the sum of both residuals: a symmetric matrix has an eigenvalue within
    ||H v - lambda v|| of lambda. That of a trace is half the width of Student's interval at ``ALLOWED``.
    """
    errors = [(estimates.trace_standard_error, estimates.trace_vectors - 1) for estimates in (ours, theirs)]
    residuals = ours.residuals[0] + theirs.residual
    return Agreement(
        top_eigenvalue=_difference(theirs.top_eigenvalue, ours.top_eigenvalue, residuals),
        trace=_difference(theirs.trace, ours.trace, half_width(errors, ALLOWED)),
    )


def _difference(theirs: float, ours: float, error: float) -> Difference:
    within = abs(theirs - ours) <= error + 1e-6 * abs(ours)
    return Difference(difference=theirs - ours, error=error, within=within)


def half_width(errors: Sequence[tuple[float, int]], probability: float = 0.975) -> float:
    """Return half the width of Student's two-sided interval around a sum of independent estimates.

    ``errors``: (standard error, degrees of freedom) of each; those of the sum are Welch's and Satterthwaite's, rounded
    down. ``probability``: of a value below the upper bound. Infinite if an error is.
    """
    squares = [(error * error, freedom) for error, freedom in errors]
    total = sum(square for square, _ in squares)
    if not 0 < total < math.inf:
        return math.sqrt(total)
    from scipy.special import stdtrit

    freedom = 1 / sum((square / total) ** 2 / freedom for square, freedom in squares if square)
    return float(stdtrit(max(1, int(freedom + 1e-9)), probability)) * math.sqrt(total)


def pyhessian_mean(hessians: Sequence[Hessian], metric: str) -> OtherEstimate | None:
    """Return PyHessian's estimate of ``metric`` over the seeds of ``hessians``, None if one of them lacks it.

    Its error, the mean of the seeds' errors, is a bound even if they do not cancel.
    """
    values = [hessian.pyhessian_value(metric) for hessian in hessians]
    if not values or None in values:
        return None
    mean = statistics.fmean(values)
    ours = statistics.fmean(hessian.value(metric) for hessian in hessians)
    error = statistics.fmean(hessian.difference(metric).error for hessian in hessians)
    spread = statistics.stdev(values) if len(values) > 1 else None
    difference = _difference(mean, ours, error).as_json()
    return OtherEstimate(by="PyHessian", value=mean, spread=spread, values=values, **difference)


def largest_errors(hessians: Sequence[Hessian], metric: str) -> RelativeErrors | None:
    """Return the largest relative errors of ``metric``, None if one of ``hessians`` lacks it."""
    errors = [hessian.relative_errors(metric) for hessian in hessians]
    if not errors or None in errors:
        return None
    return RelativeErrors(
        estimate=max(error.estimate for error in errors), images=max(error.images for error in errors)
    )
