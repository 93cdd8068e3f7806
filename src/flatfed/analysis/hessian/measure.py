"""Estimates of the Hessian at a finished run's model, unscaled and scaled (:mod:`flatfed.runs.curvature`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
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
from flatfed.analysis.hessian.summary import HessianSettings
from flatfed.analysis.hessian.vector_products import HessianProducts, remedies
from flatfed.analysis.trained_model import AnalysisInputs, Batches, TrainedModel
from flatfed.data.streams import stream
from flatfed.engine.job import memory
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.precision import full_precision
from flatfed.errors import FlatFedError
from flatfed.runs import curvature
from flatfed.runs.curvature import AtOnce, Estimates, Hessian, HessianSetUp, PyHessian, agreement

#: First keys of the streams of random vectors and of the parts; surfaces use the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "pyhessian": 4 << 20, "parts": 5 << 20}


def hessian(run: Path, inputs: AnalysisInputs, out: Path, settings: HessianSettings) -> None:
    """Write the Hessian of the run in the folder ``run`` to ``out``, without estimates if the run diverged.

    A stopped call resumes with the first unfinished estimate.

    :raises DataError: see :func:`flatfed.analysis.trained_model.load`.
    :raises FlatFedError: more eigenvalues than parameters, fewer images than parts, or an overflow.
    :raises Shortage: not enough memory.
    """
    device = pick_device(inputs.device)
    with memory.explained(device, f"Hessian of {run}", remedies(device)):
        trained = trained_model.load(run, inputs, settings.precision)
        index, parts = _images(trained, settings)
        about = _about(trained, len(index), parts, settings)
        if about.diverged_at is not None:
            print(f"{about.run}: diverged in round {about.diverged_at}: there is no Hessian", file=sys.stderr)
            curvature.write(out, Hessian(about=about))
            return
        stages = Stages(out, {**about.model_dump(), "torch": torch.__version__}, trained.row.device)
        with full_precision():
            estimated = estimate(about, *_products(trained, index, parts, settings), settings, stages)
        curvature.write(out, estimated)
        stages.discard()


def _images(trained: TrainedModel, settings: HessianSettings) -> tuple[Tensor, int]:
    """Return the positions of the images and the number of their parts, 0 if all are used."""
    if settings.top > trained.layout.size:
        raise FlatFedError(
            f"{trained.folder}: top: {settings.top} eigenvalues, but its model has {trained.layout.size} parameters"
        )
    index = trained.draw_images("train", settings.images, settings.seed)
    total = len(trained.partition.indices)
    parts = settings.parts if len(index) < total else 0
    if len(index) < parts:
        raise FlatFedError(
            f"{trained.folder}: images: {len(index)} of its {total} training images, but they are split into {parts} "
            f"parts for their sampling error: --images from {parts} on, all of them, or fewer --parts"
        )
    return index, parts


def _about(trained: TrainedModel, images: int, parts: int, settings: HessianSettings) -> HessianSetUp:
    return HessianSetUp(
        run=trained.record.name,
        **trained.provenance,
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


def _products(
    trained: TrainedModel, index: Tensor, parts: int, settings: HessianSettings
) -> tuple[HessianProducts, HessianProducts]:
    """Return the products of the unscaled and the scaled Hessian on the images ``index``.

    The ``parts`` are random: sorted positions are grouped by client.
    """
    model = trained.model.requires_grad_(True)
    vector_to_parameters(trained.row, model.parameters())
    order = torch.from_numpy(stream(settings.seed, "directions", KEYS["parts"]).permutation(len(index)))
    split = index[order.to(index.device)].tensor_split(parts) if parts else ()
    complete, *apart = (Batches(trained, part, settings.micro_batch) for part in (index, *split))
    common = (model, cross_entropy, complete, settings.block)
    return HessianProducts(*common, parts=apart), HessianProducts(*common, scale=trained.row.abs(), parts=apart)


def signs(products: HessianProducts, seed: int, first: int) -> Callable[[int], Tensor]:
    """Return a function: number -> random vector (parameters,) of -1 and 1, keyed by (``seed``, ``first`` + number)."""
    like = products.parameters[0]

    def draw(number: int) -> Tensor:
        drawn = stream(seed, "directions", first + number).integers(0, 2, products.size, dtype=np.int8)
        return torch.from_numpy(drawn).to(like.device, like.dtype) * 2 - 1

    return draw


def estimate(
    about: HessianSetUp, unscaled: HessianProducts, scaled: HessianProducts, settings: HessianSettings, stages: Stages
) -> Hessian:
    """Return all estimates of the two Hessians; ``stages`` keeps each finished one."""

    def staged(name: str, kind: type, products: HessianProducts, compute: Callable[[], Any]) -> Any:
        began, before = time.monotonic(), products.done
        value = stages.get(name, kind, compute)
        seconds = duration(time.monotonic() - began)
        print(f"{about.run}: {name}: {products.done - before} products, {seconds}", file=sys.stderr)
        return value

    def estimates_of(products: HessianProducts, prefix: str) -> Estimates:
        draw = partial(signs, unscaled, settings.seed)
        limits = {"tolerance": settings.residual, "most": settings.products}
        top = partial(eigen.top, products, draw(KEYS["eigenvalues"]), settings.top, **limits)
        eigenpairs = staged(f"{prefix}eigenvalues", eigen.Eigenpairs, products, top)
        trace = partial(estimates.trace, products, draw(KEYS["trace"]), eigenpairs, **stop)
        trace_mean = staged(f"{prefix}trace", estimates.MeanEstimate, products, trace)
        return summary.summarise(eigenpairs, trace_mean, about.images / about.images_of)

    stop = {"error": settings.trace_error, "most": settings.vectors}
    ours, ours_scaled = estimates_of(unscaled, ""), estimates_of(scaled, "scaled-")
    theirs = reason = None
    if settings.pyhessian:
        arguments = (unscaled, settings.seed, KEYS["pyhessian"])
        compute = partial(pyhessian_estimates.estimate, *arguments, tolerance=settings.residual, **stop)
        try:
            theirs = staged("pyhessian", PyHessian, unscaled, compute)
        except pyhessian_estimates.Unfit as unfit:
            reason = str(unfit)
    result = Hessian(
        about=about,
        at_once=AtOnce(images=settings.micro_batch, vectors=settings.block),
        unscaled=ours,
        scaled=ours_scaled,
        pyhessian=theirs,
        pyhessian_absent=reason,
        agreement=agreement(ours, theirs) if theirs else None,
    )
    result = result.model_copy(update={"warnings": summary.warnings(result, settings)})
    for sentence in result.warnings:
        print(f"{about.run}: warning: {sentence}", file=sys.stderr)
    return result
