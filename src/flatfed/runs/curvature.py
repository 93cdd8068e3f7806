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

#: Increased when the estimated quantities change. Numbers of other solvers serve: they agree within the stated errors.
VERSION = 1

#: Settings of all Hessians, unless an argument of the command changes them.
DEFAULTS = {"residual": 0.01, "products": 600, "trace_error": 0.05}


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


@dataclass(frozen=True, kw_only=True)
class OtherEstimate:
    """Another tool's estimate of a cell's number: mean, sample deviation, and difference of the means.

    ``within``: the difference is at most its ``error`` (:meth:`Hessian.pyhessian_error`), up to rounding.
    """

    by: str
    value: float
    spread: float | None
    values: list[float]
    difference: float
    error: float
    within: bool


class HessianSetUp(JsonDocument):
    """Model, images and settings of the estimates; none exist if the run diverged.

    ``seed`` draws ``images`` of the ``images_of`` images of the ``set``.
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
    """Estimates of one Hessian H; ``eigenvalues`` (k,) are the largest, falling; ``residuals`` are ||H v - lambda v||.

    Without convergence, there may be fewer eigenvalues than requested.
    """

    top_eigenvalue: Number
    trace: Number
    eigenvalues: Annotated[list[Number], NotEmpty]
    residuals: Annotated[list[Number], NotEmpty]
    trace_standard_error: Number
    trace_vectors: int
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

    def pyhessian_error(self, metric: str) -> float:
        """Return the error of the difference between PyHessian's estimate of ``metric`` and ours.

        Of an eigenvalue: the sum of both residuals, as a symmetric matrix has an eigenvalue within ||H v - lambda v||
        of lambda. Of a trace: three standard errors of the difference.
        """
        if METRICS[metric].estimate == "top_eigenvalue":
            return self.unscaled.residuals[0] + self.pyhessian.residual
        return 3 * math.hypot(self.unscaled.trace_standard_error, self.pyhessian.trace_standard_error)

    def relative_error(self, metric: str) -> float | None:
        """Return the residual or the standard error of our estimate of ``metric`` as its share; None if it is zero."""
        estimates, value = self.estimates(metric), abs(self.value(metric))
        eigenvalue = METRICS[metric].estimate == "top_eigenvalue"
        error = estimates.residuals[0] if eigenvalue else estimates.trace_standard_error
        return error / value if value else None

    def warnings_about(self, metric: str) -> list[str]:
        scaled, estimate = METRICS[metric]
        word = estimate.removeprefix("top_")
        return [text for text in self.warnings if word in text and text.startswith(SCALED) == scaled]


def write(path: str | os.PathLike[str], hessian: Hessian) -> None:
    """Write ``hessian`` with its seal to ``path``, atomically."""
    content = hessian.model_dump()
    about, unscaled = content.pop("about"), content.pop("unscaled")
    write_sealed(path, {**about, **(unscaled or dict.fromkeys(Estimates.model_fields)), **content})


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


def pyhessian_mean(hessians: Sequence[Hessian], metric: str) -> OtherEstimate | None:
    """Return PyHessian's estimate of ``metric`` over the seeds of ``hessians``, None if one of them lacks it.

    Its error, the mean of the seeds' errors, is a bound even if they do not cancel.
    """
    values = [hessian.pyhessian_value(metric) for hessian in hessians]
    if not values or None in values:
        return None
    mean = statistics.fmean(values)
    ours = statistics.fmean(hessian.value(metric) for hessian in hessians)
    error = statistics.fmean(hessian.pyhessian_error(metric) for hessian in hessians)
    return OtherEstimate(
        by="PyHessian",
        value=mean,
        spread=statistics.stdev(values) if len(values) > 1 else None,
        values=values,
        difference=mean - ours,
        error=error,
        within=abs(mean - ours) <= error + 1e-6 * abs(ours),
    )


def largest_error(hessians: Sequence[Hessian], metric: str) -> float | None:
    """Return the largest relative error of ``metric``, None if one of ``hessians`` lacks it."""
    errors = [hessian.relative_error(metric) for hessian in hessians]
    return max(errors) if errors and None not in errors else None
