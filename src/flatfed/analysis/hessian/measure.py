"""Estimates of the Hessian at a finished run's model, unscaled and scaled (:mod:`flatfed.runs.curvature`)."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed.analysis import trained_model
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates
from flatfed.analysis.hessian.vector_products import HessianProducts, remedies
from flatfed.analysis.trained_model import AnalysisInputs, Batches, TrainedModel
from flatfed.data.streams import stream
from flatfed.engine.job import memory
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.precision import full_precision
from flatfed.errors import FlatFedError
from flatfed.files import unfinished, write_whole
from flatfed.runs import curvature
from flatfed.runs.curvature import SCALED, Estimates, Hessian, HessianSetUp, PyHessian, agreement

#: First keys of the streams of random vectors and of the parts; surfaces use the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "pyhessian": 4 << 20, "parts": 5 << 20}


@dataclass(frozen=True)
class HessianSettings:
    """Arguments of ``flatfed hessian``."""

    images: int | None  # None: all training images
    top: int  # eigenvalues
    residual: float  # ||H v - lambda v|| / |lambda| that is enough
    products: int  # at most, for the eigenvalues
    trace_error: float  # standard error / |trace| that is enough
    vectors: int  # at most, for the trace
    parts: int  # of the images, for their sampling error
    block: int  # vectors of a graph
    micro_batch: int  # images of a graph
    precision: str
    seed: int
    pyhessian: bool


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
        stem = unfinished(out, {**about.model_dump(), "torch": torch.__version__})
        with full_precision():
            estimated = _estimate(about, *_products(trained, index, parts, settings), settings, stem)
        curvature.write(out, estimated)
        for path in stem.parent.glob(f"{stem.name}.*.stage"):
            path.unlink(missing_ok=True)


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
        version=curvature.VERSION,
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
    model = trained.model
    vector_to_parameters(trained.row, (parameter for parameter in model.parameters() if parameter.requires_grad))
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


def _estimate(
    about: HessianSetUp, unscaled: HessianProducts, scaled: HessianProducts, settings: HessianSettings, stem: Path
) -> Hessian:
    """Return all estimates of the two Hessians; each finished one has a hidden file that begins with ``stem``."""
    device = unscaled.parameters[0].device

    def staged(name: str, kind: type, products: HessianProducts, compute: Callable[[], Any]) -> Any:
        path = stem.with_name(f"{stem.name}.{name}.stage")
        with contextlib.suppress(Exception):  # absent or damaged; the kind depends on the damage
            return kind(**torch.load(path, map_location=device, weights_only=True))
        began, before = time.monotonic(), products.done
        value = compute()
        with write_whole(path) as file:
            torch.save(vars(value), file)
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
        return estimates.summarise(eigenpairs, trace_mean, about.images / about.images_of)

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
        unscaled=ours,
        scaled=ours_scaled,
        pyhessian=theirs,
        pyhessian_absent=reason,
        agreement=agreement(ours, theirs) if theirs else None,
    )
    result = result.model_copy(update={"warnings": _warnings(result, settings)})
    for sentence in result.warnings:
        print(f"{about.run}: warning: {sentence}", file=sys.stderr)
    return result


def _warnings(hessian: Hessian, settings: HessianSettings) -> list[str]:
    """Return a sentence for every problem with the estimates of ``hessian``."""
    sentences = _unconverged(hessian.unscaled, settings)
    sentences += [SCALED + sentence for sentence in _unconverged(hessian.scaled, settings)]
    if hessian.pyhessian_absent:
        sentences.append(f"PyHessian has no top eigenvalue and no trace: {hessian.pyhessian_absent}")
    if theirs := hessian.pyhessian:
        if not theirs.eigenvalue_converged:
            sentences.append("PyHessian's top eigenvalue has not converged")
        if not theirs.trace_converged:
            sentences.append("PyHessian's trace has not converged")
        for name in ("top_eigenvalue", "trace"):
            difference = getattr(hessian.agreement, name)
            if not difference.within:
                ours, other = getattr(hessian.unscaled, name), getattr(theirs, name)
                sentences.append(
                    f"{name.replace('_', ' ')}: {ours:.4g} here, {other:.4g} by PyHessian, further apart than their "
                    f"errors allow ({difference.error:.2g})"
                )
    return sentences


def _unconverged(estimates: Estimates, settings: HessianSettings) -> list[str]:
    """Return a sentence for each estimate that has not met its stopping rule."""
    sentences = []
    if not estimates.converged.eigenvalues:
        pairs = zip(estimates.residuals, estimates.eigenvalues, strict=True)
        residual, eigenvalue = max(pairs, key=lambda pair: pair[0])
        sentences.append(
            f"the eigenvalues have not converged: residual {residual:.3g} of {eigenvalue:.3g}, expected "
            f"{settings.residual:.0%}"
        )
    if not estimates.converged.trace:
        sentences.append(
            f"the trace has not converged: {estimates.trace:.4g} with standard error "
            f"{estimates.trace_standard_error:.2g} after {estimates.trace_vectors} vectors, expected "
            f"{settings.trace_error:.0%}"
        )
    return sentences
