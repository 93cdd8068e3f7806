"""The Hessian of the training loss at the model of a finished run, as it is and scaled by the weights.

Top eigenvalues and trace, those of the Hessian as it is by PyHessian too; see :mod:`flatfed.runs.curvature` for the
file and for what the scaling is for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from flatfed.analysis.hessian.vector_products import Products, remedies
from flatfed.analysis.trained_model import Inputs, Trained
from flatfed.data.streams import stream
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.memory import shortage
from flatfed.engine.precision import full_precision
from flatfed.errors import FlatFedError
from flatfed.runs import curvature
from flatfed.runs.curvature import AtOnce, Estimates, Hessian, HessianSetUp, PyHessian
from flatfed.runs.uncertainty import agreement

#: First of the numbers that key the random vectors, and the split into parts; surfaces take the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "pyhessian": 4 << 20, "parts": 5 << 20}


@dataclass(frozen=True)
class HessianSettings:
    """What is estimated, on which data, how well; ``flatfed hessian`` has the bounds and the defaults."""

    images: int | None  # None: all training images
    top: int  # eigenvalues
    residual: float  # ||H v - lambda v|| / |lambda| that ends the search for eigenvalues
    products: int  # ... and at the latest after so many products
    trace_error: float  # standard error / |trace| that ends the estimate of the trace
    vectors: int  # ... and at the latest after so many random vectors
    parts: int  # into which images are split for the error of their choice
    block: int  # vectors on one graph
    micro_batch: int  # images of one graph
    precision: str
    seed: int
    pyhessian: bool


class Batches:
    """Micro-batches of normalised images and labels, the same at every pass; what PyHessian takes for a data loader."""

    def __init__(self, trained: Trained, index: Tensor, size: int):
        self.trained, self.parts = trained, index.split(size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return map(self.trained.batch, self.parts)


def hessian(run: Path, inputs: Inputs, out: Path, settings: HessianSettings) -> None:
    """Write the Hessian of the run in folder ``run`` to the file ``out``.

    A call that was stopped goes on with the first estimate that it had not finished. Of a run that diverged the file
    says so and holds no estimates. Where memory runs out, fewer images and then vectors share a graph. Raises DataError
    for a run that does not fit its data or whose weights are no numbers, FlatFedError for more eigenvalues than
    parameters, fewer images than parts, and products that overflow, Shortage where memory does not last for one image.
    """
    place = pick_device(inputs.device)
    with shortage.explained(place, f"Hessian of {run}", remedies(place)):
        trained = trained_model.load(run, inputs, settings.precision)
        index, parts = _images(trained, settings)
        about = _about(trained, len(index), parts, settings)
        if about.diverged_at is not None:
            print(f"{about.run}: diverged in round {about.diverged_at}: there is no Hessian", file=sys.stderr)
            curvature.write(out, Hessian(about=about))
            return
        stages = Stages(out, {**asdict(about), "torch": torch.__version__}, trained.row.device)
        with full_precision():
            found = estimate(about, *_products(trained, index, parts, settings), settings, stages)
        curvature.write(out, found)
        stages.discard()


def _images(trained: Trained, settings: HessianSettings) -> tuple[Tensor, int]:
    """Return the positions of the images that are taken, and into how many parts they are split: 0 where all are.

    Raises FlatFedError for more eigenvalues than parameters, and fewer images than parts.
    """
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
    return index, parts


def _about(trained: Trained, images: int, parts: int, settings: HessianSettings) -> HessianSetUp:
    """Return whose Hessian is estimated, on how many ``images``, split into how many ``parts``."""
    return HessianSetUp(
        run=trained.record.name,
        **trained.facts,
        loss="mean cross-entropy, without weight decay, in eval mode, unaugmented",
        set="train",
        images=images,
        images_of=len(trained.partition.indices),
        parts=parts,
        parameters=trained.layout.size,
        precision=settings.precision,
        device=trained.row.device.type,
        seed=settings.seed,
        settings=asdict(settings),
    )


def _products(trained: Trained, index: Tensor, parts: int, settings: HessianSettings) -> tuple[Products, Products]:
    """Return the products of the Hessian and of the scaled one on the images ``index``, split into ``parts`` at random.

    Positions are sorted, and neighbours are one client's: in their order, parts would be other clients.
    """
    model = trained.model.requires_grad_(True)
    vector_to_parameters(trained.row, model.parameters())
    order = torch.from_numpy(stream(settings.seed, "directions", KEYS["parts"]).permutation(len(index)))
    split = index[order.to(index.device)].tensor_split(parts) if parts else ()
    everything, *apart = (Batches(trained, part, settings.micro_batch) for part in (index, *split))
    plain = Products(model, cross_entropy, everything, settings.block, parts=apart)
    scale = trained.row.abs()
    return plain, Products(
        model, cross_entropy, everything, settings.block, scale=scale, parts=apart, limits=plain.limits
    )


def signs(products: Products, seed: int, first: int) -> Callable[[int], Tensor]:
    """Return the drawing of random vectors (parameters,) of -1 and 1, keyed by (``seed``, ``first`` + number)."""
    like = products.parameters[0]

    def draw(number: int) -> Tensor:
        drawn = stream(seed, "directions", first + number).integers(0, 2, products.size, dtype=np.int8)
        return torch.from_numpy(drawn).to(like.device, like.dtype) * 2 - 1

    return draw


def estimate(
    about: HessianSetUp, plain: Products, scaled: Products, settings: HessianSettings, stages: Stages
) -> Hessian:
    """Return what the file says of the Hessian, of which ``plain`` are the products, and of the ``scaled`` one.

    ``stages`` keeps each estimate as soon as it is there.
    """

    def staged(name: str, kind: type, products: Products, compute: Callable[[], Any]) -> Any:
        began, before = time.monotonic(), products.done
        value = stages.get(name, kind, compute)
        seconds = duration(time.monotonic() - began)
        print(f"{about.run}: {name}: {products.done - before} products, {seconds}", file=sys.stderr)
        return value

    def estimates_of(products: Products, prefix: str) -> Estimates:
        draw = partial(signs, plain, settings.seed)
        limits = {"tolerance": settings.residual, "most": settings.products}
        top = partial(eigen.top, products, draw(KEYS["eigenvalues"]), settings.top, **limits)
        known = staged(f"{prefix}eigenvalues", eigen.Eigen, products, top)
        trace = partial(estimates.trace, products, draw(KEYS["trace"]), known, **stop)
        traced = staged(f"{prefix}trace", estimates.Mean, products, trace)
        return summary.summarise(known, traced, about.images / about.images_of)

    stop = {"error": settings.trace_error, "most": settings.vectors}
    own, of_scaled = estimates_of(plain, ""), estimates_of(scaled, "scaled-")
    theirs = reason = None
    if settings.pyhessian:
        arguments = (plain, settings.seed, KEYS["pyhessian"])
        other = partial(pyhessian_estimates.estimate, *arguments, tolerance=settings.residual, **stop)
        try:
            theirs = staged("pyhessian", PyHessian, plain, other)
        except pyhessian_estimates.Unfit as unfit:
            reason = str(unfit)
    limits = plain.limits
    found = Hessian(
        about=about,
        at_once=AtOnce(images=limits.images or settings.micro_batch, vectors=limits.vectors or settings.block),
        own=own,
        scaled=of_scaled,
        pyhessian=theirs,
        pyhessian_absent=reason,
        agreement=agreement(own, theirs) if theirs else None,
    )
    found = replace(found, warnings=summary.warnings(found, settings))
    for sentence in found.warnings:
        print(f"{about.run}: warning: {sentence}", file=sys.stderr)
    return found
