"""The Hessian of the training loss at the model of a finished run: top eigenvalues, trace, spectral density.

Every number is estimated twice, here (blocks of vectors on the graph of a micro-batch) and by PyHessian; see
:mod:`flatfed.analysis.records` for the file.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed.analysis import _model, hessian_eigen, hessian_estimates, hessian_pyhessian, records
from flatfed.analysis._model import Trained
from flatfed.analysis.hessian_products import Products
from flatfed.analysis.hessian_stages import Stages
from flatfed.data import augment
from flatfed.engine.precision import ANALYSED
from flatfed.engine.progress import duration
from flatfed.engine.streams import stream
from flatfed.errors import FlatFedError, unknown
from flatfed.files import write_json

#: First of the numbers that key the random vectors; surfaces take the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "density": 3 << 20, "pyhessian": 4 << 20}


@dataclass(frozen=True)
class Settings:
    """What is estimated, on which data, how well; see ``flatfed hessian --help``."""

    images: int | None = 4096  # None: all training images
    top: int = 5  # eigenvalues
    residual: float = 0.01  # ||H v - lambda v|| / |lambda| that ends the search for eigenvalues
    products: int = 600  # ... and at the latest after so many products
    trace_error: float = 0.05  # standard error / |trace| that ends the estimate of the trace
    vectors: int = 256  # ... and at the latest after so many random vectors
    steps: int = 30  # Lanczos steps of the density
    density_vectors: int = 4
    block: int = 4  # vectors on one graph
    micro_batch: int = 128  # images of one graph
    precision: str = "float32"
    seed: int = 0
    pyhessian: bool = True

    def check(self) -> None:
        """Raise FlatFedError for a setting that means nothing."""
        if self.precision not in ANALYSED:
            raise FlatFedError(unknown("precision", self.precision, ANALYSED, "hessian"))
        for name, value in asdict(self).items():
            if isinstance(value, bool | str) or value is None:
                continue
            least = {"seed": 0, "vectors": 2}.get(name, 1) if isinstance(value, int) else sys.float_info.min
            if not least <= value < 1 << 32:
                wanted = f"from {least}" if isinstance(value, int) else "above 0"
                raise FlatFedError(f"hessian: {name}: {value!r}: a number {wanted} is wanted")


class Batches:
    """Micro-batches of normalised images and labels, the same at every pass; what PyHessian takes for a data loader."""

    def __init__(self, trained: Trained, index: Tensor, size: int):
        self.data, self.parts = trained.data, index.split(size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for part in self.parts:
            yield augment.channels_last(self.data.batch(part)), self.data.labels[part]


def hessian(
    run: str | os.PathLike[str],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: Settings,
    *,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Write the Hessian of the run in folder ``run`` to the file ``out``.

    A call that was stopped goes on with the first estimate that it had not finished. Of a run that diverged the file
    says so and holds no estimates. Raises DataError for a run that
    does not fit its data or whose weights are no numbers, FlatFedError for settings that mean nothing, more eigenvalues
    than parameters, and products that overflow.
    """
    settings.check()
    trained = _model.load(run, dataset, partition, device=device, threads=threads, precision=settings.precision)
    if settings.top > trained.layout.size:
        raise FlatFedError(
            f"{run}: top: {settings.top} eigenvalues, but its model has {trained.layout.size} parameters, and its "
            "Hessian as many eigenvalues"
        )
    index = trained.choose("train", settings.images, settings.seed)
    model = trained.model.requires_grad_(True)
    vector_to_parameters(trained.row, model.parameters())
    products = Products(model, cross_entropy, Batches(trained, index, settings.micro_batch), settings.block)
    about = {
        "format": records.FORMAT,
        "run": trained.name,
        "algorithm": trained.description["algorithm"],
        "scale": trained.description["scale"],
        "digests": trained.digests,
        "loss": "mean cross-entropy, without weight decay, in eval mode, unaugmented",
        "set": "train",
        "images": len(index),
        "images_of": len(trained.partition.indices),
        "parameters": trained.layout.size,
        "precision": settings.precision,
        "device": trained.row.device.type,
        "seed": settings.seed,
        "settings": asdict(settings),
        "diverged_at": trained.diverged_at,
    }
    if trained.diverged_at is not None:
        print(f"{trained.name}: diverged in round {trained.diverged_at}: there is no Hessian", file=sys.stderr)
        write_json(Path(out), about | records.NONE)
        return
    with _exact_products():
        stages = Stages(out, {**about, "torch": torch.__version__})
        found = estimate(products, settings, stages, trained.name)
    write_json(Path(out), about | found)
    stages.discard()


@contextlib.contextmanager
def _exact_products() -> Iterator[None]:
    """Have GPUs multiply in float32, without TF32: what it rounds away is as large as a small eigenvalue."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def signs(products: Products, seed: int, first: int) -> Callable[[int], Tensor]:
    """Return the drawing of random vectors (parameters,) of -1 and 1, keyed by (``seed``, ``first`` + number)."""
    like = products.parameters[0]

    def draw(number: int) -> Tensor:
        drawn = stream(seed, "directions", first + number).integers(0, 2, products.size, dtype=np.int8)
        return torch.from_numpy(drawn).to(like.device, like.dtype) * 2 - 1

    return draw


def estimate(products: Products, settings: Settings, stages: Stages, label: str) -> dict[str, Any]:
    """Return the numbers of the file; ``stages`` keeps each estimate as soon as it is there."""

    def drawn(purpose: str) -> Callable[[int], Tensor]:
        return signs(products, settings.seed, KEYS[purpose])

    def timed(name: str, make: Callable[[], Any]) -> Any:
        began, before = time.monotonic(), products.done
        value = stages.get(name, make)
        seconds = duration(time.monotonic() - began)
        print(f"{label}: {name}: {products.done - before} products, {seconds}", file=sys.stderr)
        return value

    limits = {"tolerance": settings.residual, "most": settings.products}
    known = timed("eigenvalues", lambda: hessian_eigen.top(products, drawn("eigenvalues"), settings.top, **limits))
    known = known.to(products.parameters[0].device)
    limits = {"error": settings.trace_error, "most": settings.vectors}
    traced = timed("trace", lambda: hessian_estimates.trace(products, drawn("trace"), known, **limits))
    shape = {"steps": settings.steps, "vectors": settings.density_vectors}
    nodes, weights = timed("density", lambda: hessian_estimates.density(products, drawn("density"), **shape))
    found = {
        "top_eigenvalue": float(known.values[0]),
        "trace": traced.value,
        "eigenvalues": known.values.tolist(),
        "residuals": known.residuals.tolist(),
        "trace_standard_error": traced.standard_error,
        "trace_vectors": traced.samples,
        "density": {"nodes": nodes, "weights": weights},
        "pyhessian": None,
        "agreement": None,
        "converged": {"eigenvalues": known.converged, "trace": traced.converged},
    }
    if settings.pyhessian:
        limits = {"tolerance": settings.residual, **limits}
        other = timed(
            "pyhessian",
            lambda: hessian_pyhessian.estimate(products, settings.seed, KEYS["pyhessian"], **limits),
        )
        ours = {**found, "residual": found["residuals"][0]}
        found |= {"pyhessian": other, "agreement": records.agreement(ours, other)}
    found["warnings"] = warnings(found, settings)
    for sentence in found["warnings"]:
        print(f"{label}: warning: {sentence}", file=sys.stderr)
    return found


def warnings(found: dict[str, Any], settings: Settings) -> list[str]:
    """Return what a reader of the numbers ought to know."""
    said = []
    if not found["converged"]["eigenvalues"]:
        worst = max(range(len(found["residuals"])), key=lambda i: found["residuals"][i])
        said.append(
            f"the eigenvalues have not converged: residual {found['residuals'][worst]:.3g} of "
            f"{found['eigenvalues'][worst]:.3g}, wanted is {settings.residual:.0%}"
        )
    if not found["converged"]["trace"]:
        said.append(
            f"the trace has not converged: {found['trace']:.4g} with standard error "
            f"{found['trace_standard_error']:.2g} after {found['trace_vectors']} vectors, wanted is "
            f"{settings.trace_error:.0%}"
        )
    other = found["pyhessian"] or {}
    for key, what in (("eigenvalue_converged", "top eigenvalue"), ("trace_converged", "trace")):
        if not other.get(key, True):
            said.append(f"PyHessian's {what} has not converged")
    for field, compared in (found["agreement"] or {}).items():
        if not compared["within"]:
            said.append(
                f"{field.replace('_', ' ')}: {found[field]:.4g} here, {found['pyhessian'][field]:.4g} by PyHessian, "
                f"further apart than their errors allow ({compared['error']:.2g})"
            )
    return said
