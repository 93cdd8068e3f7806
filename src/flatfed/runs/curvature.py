"""``hessian.json``: estimates of the Hessian of the training loss at a run's model. Needs no torch.

Eigenvalues and trace are in nats per squared unit of the weights, those of ``scaled`` in nats.

**Why scaled.** With ReLU or normalisation layers, a filter and its bias can grow by a factor and the next weights
shrink by it: the model remains the same function, but H changes, and longer filters look flatter. W H W,
W = diag(|w|), is invariant to such factors, one per filter. To second order, its top eigenvalue and trace are the
maximal and the average element-wise adaptive sharpness of Kwon, Kim, Park and Choi, ASAM, ICML 2021, section 3.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from flatfed.config.json_document import JsonDocument
from flatfed.config.values import NotEmpty, Number
from flatfed.errors import DataError
from flatfed.files import read_sealed, write_sealed
from flatfed.runs.record import AnalysedModel, Digests
from flatfed.runs.uncertainty import Agreement, Difference, RelativeErrors

FORMAT = 3


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


class HessianSetUp(JsonDocument):
    """Model, images and settings of the estimates; none exist if the run diverged.

    ``images`` of the ``images_of`` images of the ``set`` are drawn by ``seed``, and split into ``parts`` for their
    sampling error (0: all images are used).
    """

    format: Literal[FORMAT] = FORMAT
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


class AtOnce(JsonDocument):
    """Images and vectors of a graph: fewer than requested if memory ran out."""

    images: int
    vectors: int


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
    at_once: AtOnce | None = None
    unscaled: Estimates | None = None
    scaled: Estimates | None = None
    pyhessian: PyHessian | None = None
    pyhessian_absent: str | None = None
    agreement: Agreement | None = None
    warnings: list[str] = Field(default_factory=list)

    @property
    def model(self) -> AnalysedModel:
        return AnalysedModel(name=self.about.run, scale=self.about.scale, digests=self.about.digests)

    def covers(self, metric: str) -> bool:
        return self.about.diverged_at is not None or self.estimates(metric) is not None

    def estimates(self, metric: str) -> Estimates | None:
        return self.scaled if METRICS[metric].scaled else self.unscaled

    def value(self, metric: str) -> float:
        return getattr(self.estimates(metric), METRICS[metric].estimate)

    def pyhessian_value(self, metric: str) -> float | None:
        """Return PyHessian's estimate of ``metric``; None without, and for the scaled Hessian."""
        scaled, estimate = METRICS[metric]
        return getattr(self.pyhessian, estimate) if self.pyhessian and not scaled else None

    def difference(self, metric: str) -> Difference:
        return getattr(self.agreement, METRICS[metric].estimate)

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
    """Write ``hessian`` with its seal to ``path``, atomically."""
    content = hessian.model_dump()
    set_up = {**content.pop("about"), "at_once": content.pop("at_once")}
    unscaled = content.pop("unscaled") or dict.fromkeys(Estimates.model_fields)
    write_sealed(path, {**set_up, **unscaled, **content})


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
    hessian = Hessian.of_json({**content, "about": content, "unscaled": content}, where)
    if hessian.pyhessian and not hessian.agreement:
        raise DataError("without the agreement of PyHessian's estimates with ours")
    return hessian
