"""The Hessian of the training loss at the model of a finished run, as it is and scaled by the weights.

Top eigenvalues and trace, those of the Hessian as it is by PyHessian too, and the spectral density where it is asked
for; see :mod:`flatfed.runs.curvature` for the file and for what the scaling is for.
"""

from __future__ import annotations

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

from flatfed.analysis import trained_model
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates, summary
from flatfed.analysis.hessian.stages import Stages
from flatfed.analysis.hessian.vector_products import Products, Room, remedies
from flatfed.analysis.trained_model import Trained
from flatfed.data import augment
from flatfed.data.streams import stream
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.memory import shortage
from flatfed.engine.precision import ANALYSED, full_precision
from flatfed.errors import FlatFedError, unknown
from flatfed.files import write_json
from flatfed.runs import curvature

#: First of the numbers that key the random vectors, and the split into parts; surfaces take the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "density": 3 << 20, "pyhessian": 4 << 20, "parts": 5 << 20}


#: Least value of a setting that is a whole number; of the others 1.
LEAST = {"seed": 0, "density_vectors": 0, "vectors": 2, "parts": 2}


@dataclass(frozen=True)
class Settings:
    """What is estimated, on which data, how well; see ``flatfed hessian --help``."""

    images: int | None = 4096  # None: all training images
    top: int = 5  # eigenvalues
    residual: float = 0.01  # ||H v - lambda v|| / |lambda| that ends the search for eigenvalues
    products: int = 600  # ... and at the latest after so many products
    trace_error: float = 0.05  # standard error / |trace| that ends the estimate of the trace
    vectors: int = 256  # ... and at the latest after so many random vectors
    density_vectors: int = 0  # random vectors of the density; 0: there is none
    steps: int = 30  # Lanczos steps of the density
    parts: int = 8  # into which images are split for the error of their choice
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
            least = LEAST.get(name, 1) if isinstance(value, int) else sys.float_info.min
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
    says so and holds no estimates. Where memory runs out, fewer images and then vectors share a graph. Raises DataError
    for a run that does not fit its data or whose weights are no numbers, FlatFedError for settings that mean nothing,
    more eigenvalues than parameters, fewer images than parts, and products that overflow, Shortage where memory does
    not last for one image.
    """
    settings.check()
    place = pick_device(device)
    with shortage.told(place, f"Hessian of {run}", remedies(place)):
        of = {"device": device, "threads": threads, "precision": settings.precision}
        trained = trained_model.load(run, dataset, partition, **of)
        _write(trained, Path(out), settings)


def _write(trained: Trained, out: Path, settings: Settings) -> None:
    """Write the Hessian at the model of ``trained`` to ``out``; raises what :func:`hessian` does."""
    if settings.top > trained.layout.size:
        raise FlatFedError(
            f"{trained.folder}: top: {settings.top} eigenvalues, but its model has {trained.layout.size} parameters, "
            "and its Hessian as many eigenvalues"
        )
    index, every = trained.choose("train", settings.images, settings.seed), len(trained.partition.indices)
    parts = settings.parts if len(index) < every else 0
    if len(index) < parts:
        raise FlatFedError(
            f"{trained.folder}: images: {len(index)} of its {every} training images, but they are split into {parts} "
            f"parts for the error of their choice: --images from {parts} on, all of them, or fewer --parts"
        )
    room = Room()
    products, scaled = _products(trained, index, parts, room, settings)
    about = {
        "format": curvature.FORMAT,
        "run": trained.name,
        "algorithm": trained.description["algorithm"],
        "scale": trained.description["scale"],
        "digests": trained.digests,
        "loss": "mean cross-entropy, without weight decay, in eval mode, unaugmented",
        "set": "train",
        "images": len(index),
        "images_of": every,
        "parts": parts,
        "parameters": trained.layout.size,
        "precision": settings.precision,
        "device": trained.row.device.type,
        "seed": settings.seed,
        "settings": asdict(settings),
        "diverged_at": trained.diverged_at,
    }
    if trained.diverged_at is not None:
        print(f"{trained.name}: diverged in round {trained.diverged_at}: there is no Hessian", file=sys.stderr)
        write_json(out, about | {"at_once": None} | curvature.NONE)
        return
    with full_precision():
        stages = Stages(out, {**about, "torch": torch.__version__})
        found = estimate(products, scaled, settings, stages, trained.name, len(index) / every)
    at_once = {"images": room.images or settings.micro_batch, "vectors": room.vectors or settings.block}
    write_json(out, about | {"at_once": at_once} | found)
    stages.discard()


def _products(trained: Trained, index: Tensor, parts: int, room: Room, settings: Settings) -> tuple[Products, Products]:
    """Return the products of the Hessian and of the scaled one on the images ``index``, split into ``parts`` at random.

    Positions are sorted, and neighbours are one client's: in their order, parts would be other clients.
    """
    model = trained.model.requires_grad_(True)
    vector_to_parameters(trained.row, model.parameters())
    order = torch.from_numpy(stream(settings.seed, "directions", KEYS["parts"]).permutation(len(index)))
    split = index[order.to(index.device)].tensor_split(parts) if parts else ()
    whole, *apart = (Batches(trained, some, settings.micro_batch) for some in (index, *split))

    def of(scale: Tensor | None) -> Products:
        return Products(model, cross_entropy, whole, settings.block, scale=scale, parts=apart, room=room)

    return of(None), of(trained.row.abs())


def signs(products: Products, seed: int, first: int) -> Callable[[int], Tensor]:
    """Return the drawing of random vectors (parameters,) of -1 and 1, keyed by (``seed``, ``first`` + number)."""
    like = products.parameters[0]

    def draw(number: int) -> Tensor:
        drawn = stream(seed, "directions", first + number).integers(0, 2, products.size, dtype=np.int8)
        return torch.from_numpy(drawn).to(like.device, like.dtype) * 2 - 1

    return draw


def estimate(
    products: Products, scaled: Products, settings: Settings, stages: Stages, label: str, taken: float
) -> dict[str, Any]:
    """Return the numbers of the file; ``stages`` keeps each estimate as soon as it is there.

    ``taken``: the share of all images that the ``products`` are on.
    """

    def drawn(purpose: str) -> Callable[[int], Tensor]:
        return signs(products, settings.seed, KEYS[purpose])

    def timed(name: str, products: Products, make: Callable[[], Any]) -> Any:
        began, before = time.monotonic(), products.done
        value = stages.get(name, make)
        seconds = duration(time.monotonic() - began)
        print(f"{label}: {name}: {products.done - before} products, {seconds}", file=sys.stderr)
        return value

    def of(products: Products, prefix: str) -> dict[str, Any]:
        limits = {"tolerance": settings.residual, "most": settings.products}
        known = timed(
            f"{prefix}eigenvalues",
            products,
            lambda: eigen.top(products, drawn("eigenvalues"), settings.top, **limits),
        ).to(products.parameters[0].device)
        limits = {"error": settings.trace_error, "most": settings.vectors}
        traced = timed(f"{prefix}trace", products, lambda: estimates.trace(products, drawn("trace"), known, **limits))
        return summary.of(known, traced, taken)

    found = {**of(products, ""), "scaled": of(scaled, "scaled-")}
    found |= dict.fromkeys(("density", "pyhessian", "pyhessian_absent", "agreement"))
    if settings.density_vectors:
        shape = {"steps": settings.steps, "vectors": settings.density_vectors}
        nodes, weights = timed("density", products, lambda: estimates.density(products, drawn("density"), **shape))
        found["density"] = {"nodes": nodes, "weights": weights}
    if settings.pyhessian:
        limits = {"tolerance": settings.residual, "error": settings.trace_error, "most": settings.vectors}
        try:
            other = timed(
                "pyhessian",
                products,
                lambda: pyhessian_estimates.estimate(products, settings.seed, KEYS["pyhessian"], **limits),
            )
            ours = {**found, "residual": found["residuals"][0]}
            found |= {"pyhessian": other, "agreement": curvature.agreement(ours, other)}
        except pyhessian_estimates.Unfit as reason:
            found["pyhessian_absent"] = str(reason)
    found["warnings"] = summary.warnings(found, settings)
    for sentence in found["warnings"]:
        print(f"{label}: warning: {sentence}", file=sys.stderr)
    return found
