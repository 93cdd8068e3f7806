"""``hessian.json``: how sharp the loss is at a run's model. One dataclass, one reader, one writer. Needs no torch.

The file is a :class:`Hessian` as JSON, in which the fields of ``about`` and ``own`` stand at the top level. Eigenvalues
and trace are in nats per squared unit of the weights, those of ``scaled`` in nats. The same call of ``flatfed hessian``
writes the same bytes.

**What no scaling can change.** With ReLU or normalisation layers a filter, with its bias, can be made a times as long
and what follows it 1/a times, and the model stays the same function; its Hessian does not: its entries are divided by
a^2 there and multiplied by it here, so that of two such models the one with longer filters looks flatter. The entries
of W H W are w_i w_j H_ij, in which every such factor cancels, for each filter by itself: to second order this is the
element-wise adaptive sharpness of Kwon, Kim, Park and Choi, ASAM, ICML 2021, section 3, at its largest (the top
eigenvalue) or on average (the trace). The lengths of whole filters, as in
:mod:`flatfed.analysis.landscape.directions`, cancel only what scales all filters of a layer alike: one that is made
longer changes how long the next layer's are, each by another factor.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, NamedTuple

from flatfed import forms
from flatfed.errors import DataError
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import Form, some
from flatfed.runs.analysed import AnalysedModel, Digests
from flatfed.runs.record import CONVERSION
from flatfed.runs.uncertainty import Agreement, Difference, Shares

FORMAT = 3
KNOWN = Form(f"{FORMAT}; {CONVERSION} converts 1 and 2", lambda value: type(value) is int and value == FORMAT)


class HessianMetric(NamedTuple):
    """What a metric of a table is: an estimate (the name of its field) of the Hessian, or of the ``scaled`` one."""

    scaled: bool
    estimate: str


#: Metric of a table -> the estimate that it prints.
METRICS = {
    "hessian_top_eigenvalue": HessianMetric(False, "top_eigenvalue"),
    "hessian_trace": HessianMetric(False, "trace"),
    "hessian_scaled_top_eigenvalue": HessianMetric(True, "top_eigenvalue"),
    "hessian_scaled_trace": HessianMetric(True, "trace"),
}
#: What stands in front of a warning of the scaled Hessian.
SCALED = "scaled by the weights: "


@dataclass(frozen=True, kw_only=True)
class HessianSetUp:
    """Whose Hessian is estimated, on which images, and how.

    ``run`` is ``<protocol>/<split>/<algorithm>/seed<k>``; ``loss`` says of which loss; ``images`` of the ``images_of``
    images of the ``set`` are drawn by ``seed`` and split into ``parts`` for the error of their choice (0: all are
    taken). ``parameters``: length of a vector; ``precision`` and ``device`` of the products; ``settings``: what was
    asked for. ``diverged_at``: the round in which the run's numbers stopped being finite; there are no estimates then.
    """

    format: Annotated[int, KNOWN] = FORMAT
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


@dataclass(frozen=True, kw_only=True)
class AtOnce:
    """How many images were on a graph in the end, and vectors on it: fewer than asked for where memory ran out."""

    images: int
    vectors: int


@dataclass(frozen=True, kw_only=True)
class Converged:
    """Whether the stopping rule of each estimate was met."""

    eigenvalues: bool
    trace: bool


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Estimates of one Hessian H with their errors.

    ``eigenvalues`` (k,) are the largest by value, falling, ``residuals`` (k,) their ||H v - lambda v||.
    ``trace_standard_error`` is that of the ``trace_vectors`` random vectors. An ``images_error`` is the standard error
    of the choice of images, 0 where all are taken.
    """

    top_eigenvalue: float
    trace: float
    eigenvalues: Annotated[list[float], some(float)]
    residuals: Annotated[list[float], some(float)]
    trace_standard_error: float
    trace_vectors: int
    top_eigenvalue_images_error: float | None = None
    trace_images_error: float | None = None
    converged: Converged


@dataclass(frozen=True, kw_only=True)
class PyHessian:
    """PyHessian's estimates of H, and its version; ``residual`` is ||H v - lambda v|| of its eigenvalue."""

    version: str
    top_eigenvalue: float
    residual: float
    eigenvalue_converged: bool
    trace: float
    trace_standard_error: float
    trace_vectors: int
    trace_converged: bool


@dataclass(frozen=True, kw_only=True)
class Hessian:
    """What a hessian.json says; of a run that diverged ``about`` alone.

    ``own``: estimates of the Hessian H, ``scaled``: of W H W with W = diag(|w|), which no scaling can change
    (None in a converted file).
    ``pyhessian`` is None where it was left out or, for the reason that ``pyhessian_absent`` gives, could not be had.
    ``warnings`` are sentences for a table's notes.
    """

    about: HessianSetUp
    at_once: AtOnce | None = None
    own: Estimates | None = None
    scaled: Estimates | None = None
    pyhessian: PyHessian | None = None
    pyhessian_absent: str | None = None
    agreement: Agreement | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def model(self) -> AnalysedModel:
        """Whose model it is of."""
        return AnalysedModel(name=self.about.run, scale=self.about.scale, digests=self.about.digests)

    def has(self, metric: str) -> bool:
        """Return whether it has estimates that ``metric`` is one of, or is of a run that diverged."""
        return self.about.diverged_at is not None or self.estimates(metric) is not None

    def estimates(self, metric: str) -> Estimates | None:
        """Return the estimates that ``metric`` is one of: those of the Hessian, or of the scaled one; None without."""
        return self.scaled if METRICS[metric].scaled else self.own

    def value(self, metric: str) -> float:
        """Return our estimate of ``metric``; there has to be one (:meth:`has`)."""
        return getattr(self.estimates(metric), METRICS[metric].estimate)

    def theirs(self, metric: str) -> float | None:
        """Return PyHessian's estimate of ``metric``, None where there is none; it has none of the scaled Hessian."""
        scaled, estimate = METRICS[metric]
        return getattr(self.pyhessian, estimate) if self.pyhessian and not scaled else None

    def difference(self, metric: str) -> Difference:
        """Return how far PyHessian's estimate of ``metric`` is from ours; there has to be one (:meth:`theirs`)."""
        return getattr(self.agreement, METRICS[metric].estimate)

    def shares(self, metric: str) -> Shares | None:
        """Return the errors of our estimate of ``metric`` as shares of it.

        ``estimate``: the residual of an eigenvalue, the standard error of a trace from its random vectors; ``images``:
        the standard error of the choice of images. None where the file does not say or the estimate is zero.
        """
        estimates, value, name = self.estimates(metric), abs(self.value(metric)), METRICS[metric].estimate
        of_images = getattr(estimates, f"{name}_images_error")
        if of_images is None or not value:
            return None
        own = estimates.residuals[0] if name == "top_eigenvalue" else estimates.trace_standard_error
        return Shares(estimate=own / value, images=of_images / value)

    def cautions(self, metric: str) -> list[str]:
        """Return the sentences of ``warnings`` that are about ``metric``."""
        scaled, estimate = METRICS[metric]
        word = {"top_eigenvalue": "eigenvalue", "trace": "trace"}[estimate]
        return [text for text in self.warnings if word in text and text.startswith(SCALED) == scaled]


def write(path: str | os.PathLike[str], hessian: Hessian) -> None:
    """Write ``hessian`` to ``path``, whole, with its seal."""
    content = asdict(hessian)
    first = {**content.pop("about"), "at_once": content.pop("at_once")}
    own = content.pop("own") or dict.fromkeys(each.name for each in fields(Estimates))
    write_sealed(path, {**first, **own, **content})


def read(path: str | os.PathLike[str]) -> Hessian:
    """Return the content of a hessian.json.

    :raises DataError: the file is absent, damaged, edited, or of another form.
    """
    try:
        return read_sealed(_parsed, path, "a Hessian", "delete it; the next call makes it again")
    except FileNotFoundError:
        raise DataError(f"{path}: no such Hessian; flatfed hessian makes it") from None


def _parsed(content: Any, where: str) -> Hessian:
    """Return what the JSON of a file says; DataError where its form is another or its parts do not fit each other."""
    about = forms.read(HessianSetUp, content, where)
    if about.diverged_at is not None:
        return Hessian(about=about)
    found = forms.read(Hessian, {**content, "about": content, "own": content}, where)
    if found.pyhessian and not found.agreement:
        raise DataError("without the agreement of PyHessian's estimates with ours")
    return found
