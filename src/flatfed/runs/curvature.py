"""``hessian.json``: estimates of the Hessian of the training loss at a run's model. Needs no torch.

Eigenvalues and trace are in nats per squared unit of the weights, those of ``scaled`` in nats.

**Why scaled.** With ReLU or normalisation layers, a filter and its bias can grow by a factor and the next weights
shrink by it: the model remains the same function, but H changes, and longer filters look flatter. W H W,
W = diag(|w|), is invariant to such factors, one per filter. To second order, its top eigenvalue and trace are the
maximal and the average element-wise adaptive sharpness of Kwon, Kim, Park and Choi, ASAM, ICML 2021, section 3.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from flatfed.config.document import JsonDocument
from flatfed.config.values import NotEmpty, Number
from flatfed.errors import DataError
from flatfed.files import read_sealed, write_sealed
from flatfed.runs.record import AnalysedModel, Digests

FORMAT = 3

#: Increased when the numbers of the file change.
VERSION = 1

#: Settings of all Hessians, unless an argument of the command changes them.
DEFAULTS = {"precision": "float32", "residual": 0.01, "products": 600, "trace_error": 0.05}


class HessianMetric(NamedTuple):
    """A metric of a table: an estimate of the Hessian or of the ``scaled`` one."""

    scaled: bool
    estimate: str


METRICS = {
    "hessian_top_eigenvalue": HessianMetric(False, "top_eigenvalue"),
    "hessian_trace": HessianMetric(False, "trace"),
    "hessian_scaled_top_eigenvalue": HessianMetric(True, "top_eigenvalue"),
    "hessian_scaled_trace": HessianMetric(True, "trace"),
}
#: Beginning of a warning about the scaled Hessian.
SCALED = "scaled by the weights: "


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


class HessianSetUp(JsonDocument):
    """Model, images and settings of the estimates; none exist if the run diverged.

    ``images`` of the ``images_of`` images of the ``set`` are drawn by ``seed``, and split into ``parts`` for their
    sampling error (0: all images are used).
    """

    format: Literal[FORMAT] = FORMAT
    version: int = 1
    run: str
    algorithm: str
    scale: str
    digests: Digests
    loss: str
    set: str
    images: int
    images_of: int
    parts: int | None = None
    parameters: int
    precision: str
    device: str
    seed: int
    settings: dict[str, Any]
    diverged_at: int | None = None


class Converged(JsonDocument):
    """Whether each estimate met its stopping rule."""

    eigenvalues: bool
    trace: bool


class Estimates(JsonDocument):
    """Estimates of one Hessian H; ``eigenvalues`` (k,) are the largest, falling, with ``residuals`` ||H v - lambda v||.

    An ``images_error`` is the standard error of image sampling, 0 if all images are used.
    """

    top_eigenvalue: Number
    trace: Number
    eigenvalues: Annotated[list[Number], NotEmpty]
    residuals: Annotated[list[Number], NotEmpty]
    trace_standard_error: Number
    trace_vectors: int
    top_eigenvalue_images_error: Number | None = None
    trace_images_error: Number | None = None
    converged: Converged


class PyHessian(JsonDocument):
    """PyHessian's estimates of H; ``residual`` is ||H v - lambda v|| of its eigenvalue."""

    version: str
    top_eigenvalue: Number
    residual: Number
    eigenvalue_converged: bool
    trace: Number
    trace_standard_error: Number
    trace_vectors: int
    trace_converged: bool


class Hessian(JsonDocument):
    """A hessian.json, with ``about`` and ``unscaled`` at its top level; only ``about`` if the run diverged.

    ``scaled`` is None in a converted file, ``pyhessian`` if it was not requested or for the reason
    ``pyhessian_absent``.
    """

    about: HessianSetUp
    unscaled: Estimates | None = None
    scaled: Estimates | None = None
    pyhessian: PyHessian | None = None
    pyhessian_absent: str | None = None
    agreement: Agreement | None = None
    warnings: list[str] = Field(default_factory=list)

    @property
    def model(self) -> AnalysedModel:
        return AnalysedModel(name=self.about.run, scale=self.about.scale, digests=self.about.digests)

    def estimates(self, metric: str) -> Estimates | None:
        return self.scaled if METRICS[metric].scaled else self.unscaled

    def value(self, metric: str) -> float:
        return getattr(self.estimates(metric), METRICS[metric].estimate)

    def pyhessian_value(self, metric: str) -> float | None:
        """Return PyHessian's estimate of ``metric``; None without, and for the scaled Hessian."""
        scaled, estimate = METRICS[metric]
        return getattr(self.pyhessian, estimate) if self.pyhessian and not scaled else None

    def relative_errors(self, metric: str) -> RelativeErrors | None:
        """Return the relative errors of our estimate of ``metric``, None if one is unknown or the estimate is zero."""
        estimates, value, name = self.estimates(metric), abs(self.value(metric)), METRICS[metric].estimate
        images_error = getattr(estimates, f"{name}_images_error")
        if images_error is None or not value:
            return None
        error = estimates.residuals[0] if name == "top_eigenvalue" else estimates.trace_standard_error
        return RelativeErrors(estimate=error / value, images=images_error / value)

    def warnings_about(self, metric: str) -> list[str]:
        scaled, estimate = METRICS[metric]
        word = estimate.removeprefix("top_")
        return [text for text in self.warnings if word in text and text.startswith(SCALED) == scaled]


def write(path: str | os.PathLike[str], hessian: Hessian) -> None:
    """Write ``hessian`` with its seal to ``path``, atomically.

    Its key ``at_once`` has the images and vectors of a graph.
    """
    content, settings = hessian.model_dump(), hessian.about.settings
    about, unscaled = content.pop("about"), content.pop("unscaled")
    at_once = {"images": settings["micro_batch"], "vectors": settings["block"]} if unscaled else None
    write_sealed(path, {**about, "at_once": at_once, **(unscaled or dict.fromkeys(Estimates.model_fields)), **content})


def read(path: str | os.PathLike[str]) -> Hessian:
    """Return the content of a hessian.json; DataError for an absent, damaged or edited file."""
    try:
        return read_sealed(_parsed, path, "a Hessian", "delete it; the next call rebuilds it")
    except FileNotFoundError:
        raise DataError(f"{path}: no such Hessian; flatfed hessian makes it") from None


def _parsed(content: Any, where: str) -> Hessian:
    about = HessianSetUp.of_json(content, where)
    if about.diverged_at is not None:
        return Hessian(about=about)
    return Hessian.of_json({**content, "about": content, "unscaled": content}, where)


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
    error = statistics.fmean(getattr(hessian.agreement, METRICS[metric].estimate).error for hessian in hessians)
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
