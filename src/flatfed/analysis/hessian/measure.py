"""Estimates of the Hessian at a finished run's model, unscaled and scaled (:mod:`flatfed.runs.curvature`)."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed.analysis import trained_model
from flatfed.analysis.hessian import estimates, pyhessian_estimates
from flatfed.analysis.hessian.vector_products import REMEDIES, HessianProducts
from flatfed.analysis.trained_model import AnalysisInputs, Batches, TrainedModel
from flatfed.data.streams import stream
from flatfed.engine.job import memory
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.progress import duration
from flatfed.engine.precision import full_precision
from flatfed.runs import curvature
from flatfed.runs.curvature import SCALED, Converged, Estimates, Hessian, HessianSetUp

#: First keys of the streams of random vectors; surfaces use the streams from 0 on.
KEYS = {"eigenvalues": 1 << 20, "trace": 2 << 20, "pyhessian": 4 << 20}


@dataclass(frozen=True)
class HessianSettings:
    """Arguments of ``flatfed hessian``."""

    images: int | None  # None: all training images
    top: int  # eigenvalues
    residual: float  # ||H v - lambda v|| / |lambda| that is enough
    products: int  # at most, for the eigenvalues
    trace_error: float  # standard error / |trace| that is enough
    vectors: int  # at most, for the trace
    block: int  # vectors of a graph
    micro_batch: int  # images of a graph
    seed: int
    pyhessian: bool


def hessian(run: Path, inputs: AnalysisInputs, out: Path, settings: HessianSettings) -> None:
    """Write the Hessian of the run in the folder ``run`` to ``out``, without estimates if the run diverged.

    :raises DataError: see :func:`flatfed.analysis.trained_model.load`.
    :raises FlatFedError: an overflow.
    :raises Shortage: not enough memory.
    """
    device = pick_device(inputs.device)
    with memory.explained(device, f"Hessian of {run}", REMEDIES):
        trained = trained_model.load(run, inputs)
        index = trained.draw_images("train", settings.images, settings.seed)
        about = _about(trained, len(index), settings)
        if about.diverged_at is not None:
            print(f"{about.run}: diverged in round {about.diverged_at}: there is no Hessian", file=sys.stderr)
            curvature.write(out, Hessian(about=about))
            return
        with full_precision():
            estimated = _estimate(about, *_products(trained, index, settings), settings)
        curvature.write(out, estimated)
        for sentence in estimated.warnings:
            print(f"{out}: warning: {sentence}", file=sys.stderr)


def _about(trained: TrainedModel, images: int, settings: HessianSettings) -> HessianSetUp:
    return HessianSetUp(
        version=curvature.VERSION,
        run=trained.record.name,
        **trained.provenance,
        loss="mean cross-entropy, without weight decay, in eval mode, unaugmented",
        set="train",
        images=images,
        images_of=len(trained.partition.indices),
        parameters=trained.layout.size,
        precision=str(trained.row.dtype).removeprefix("torch."),
        device=trained.row.device.type,
        seed=settings.seed,
        settings=asdict(settings),
    )


def _products(
    trained: TrainedModel, index: Tensor, settings: HessianSettings
) -> tuple[HessianProducts, HessianProducts]:
    """Return the products of the unscaled and the scaled Hessian on the images ``index``."""
    model = trained.model
    vector_to_parameters(trained.row, (parameter for parameter in model.parameters() if parameter.requires_grad))
    common = (model, cross_entropy, Batches(trained, index, settings.micro_batch), settings.block)
    return HessianProducts(*common), HessianProducts(*common, scale=trained.row.abs())


def signs(products: HessianProducts, seed: int, first: int) -> estimates.Draw:
    """Return a function: number -> random vector (parameters,) of -1 and 1, keyed by (``seed``, ``first`` + number)."""
    like = products.parameters[0]

    def draw(number: int) -> Tensor:
        drawn = stream(seed, "directions", first + number).integers(0, 2, products.size, dtype=np.int8)
        return torch.from_numpy(drawn).to(like.device, like.dtype) * 2 - 1

    return draw


@contextlib.contextmanager
def _reported(title: str, products: HessianProducts) -> Iterator[None]:
    """Print the products and the time of an estimate."""
    began, before = time.monotonic(), products.done
    yield
    seconds = duration(time.monotonic() - began)
    print(f"{title}: {products.done - before} products, {seconds}", file=sys.stderr)


def _estimate(
    about: HessianSetUp, unscaled: HessianProducts, scaled: HessianProducts, settings: HessianSettings
) -> Hessian:
    """Return all estimates of the two Hessians."""

    def estimates_of(products: HessianProducts, prefix: str) -> Estimates:
        start = signs(unscaled, settings.seed, KEYS["eigenvalues"])(0)
        limits = {"tolerance": settings.residual, "most": settings.products}
        with _reported(f"{about.run}: {prefix}eigenvalues", products):
            pairs = estimates.top(products, start, settings.top, **limits)
        with _reported(f"{about.run}: {prefix}trace", products):
            trace = estimates.trace(products, signs(unscaled, settings.seed, KEYS["trace"]), **stop)
        return Estimates(
            top_eigenvalue=float(pairs.values[0]),
            trace=trace.value,
            eigenvalues=pairs.values.tolist(),
            residuals=pairs.residuals.tolist(),
            trace_standard_error=trace.standard_error,
            trace_vectors=trace.samples,
            converged=Converged(eigenvalues=pairs.converged, trace=trace.converged),
        )

    stop = {"error": settings.trace_error, "most": settings.vectors}
    result = Hessian(about=about, unscaled=estimates_of(unscaled, ""), scaled=estimates_of(scaled, "scaled "))
    if settings.pyhessian:
        arguments = (unscaled, settings.seed, KEYS["pyhessian"])
        try:
            with _reported(f"{about.run}: pyhessian", unscaled):
                theirs = pyhessian_estimates.estimate(*arguments, tolerance=settings.residual, **stop)
            result = result.model_copy(update={"pyhessian": theirs})
        except pyhessian_estimates.Unfit as unfit:
            result = result.model_copy(update={"pyhessian_absent": str(unfit)})
    return result.model_copy(update={"warnings": _warnings(result, settings)})


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
    return sentences


def _unconverged(estimates: Estimates, settings: HessianSettings) -> list[str]:
    """Return a sentence for each estimate that has not met its stopping rule."""
    sentences = []
    if not estimates.converged.eigenvalues:
        pairs = list(zip(estimates.residuals, estimates.eigenvalues, strict=True))
        residual, eigenvalue = max(pairs)
        sentences.append(
            f"the eigenvalues have not converged: residual {residual:.3g} of {eigenvalue:.3g}, expected "
            f"{settings.residual:.0%}, and {len(pairs)} of {settings.top} eigenvalues"
        )
    if not estimates.converged.trace:
        sentences.append(
            f"the trace has not converged: {estimates.trace:.4g} with standard error "
            f"{estimates.trace_standard_error:.2g} after {estimates.trace_vectors} vectors, expected "
            f"{settings.trace_error:.0%}"
        )
    return sentences
