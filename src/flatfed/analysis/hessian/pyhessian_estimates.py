"""PyHessian's estimates (Yao, Gholami, Keutzer and Mahoney 2020), which the papers most likely used.

Works around release 0.1: it expects CUDA; it draws vectors from torch's global generator, in the default dtype; it
stops a trace when two running means are close, at once if the mean is negative, and gives no error; it does not report
convergence; it fails if the loss does not depend on a parameter. Its power iteration finds the eigenvalue of the
largest size, possibly negative.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from flatfed.analysis.hessian.estimates import MIN_SAMPLES, mean
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.data.streams import torch_seed
from flatfed.engine.job import memory
from flatfed.errors import FlatFedError
from flatfed.runs.curvature import PyHessian

ITERATIONS = 100  # of a power iteration, the default
TOLERANCE = 1e-6  # relative change that stops it; the default, 1e-3, stops far from the eigenvector


class Unfit(FlatFedError):
    """PyHessian has no estimate of this model here."""


def estimate(products: HessianProducts, seed: int, key: int, *, tolerance: float, error: float, most: int) -> PyHessian:
    """Return PyHessian's top eigenvalue and trace for the model, loss and batches of ``products``.

    The eigenvalue has converged if its residual is at most ``tolerance`` |lambda|. Sampling of the trace stops when its
    standard error is at most ``error`` of it, or after ``most`` samples.

    :raises Unfit: PyHessian has no estimate.
    :raises FlatFedError: PyHessian is not installed.
    """
    try:
        from pyhessian import hessian
    except ImportError as missing:
        remedy = "pip install pyhessian, or leave its estimate out with --without-pyhessian"
        raise FlatFedError(f"PyHessian is not installed ({missing}): {remedy}") from None
    if name := _unused_parameter(products):
        raise Unfit(f"it takes every parameter to be part of the loss and of its gradient, and {name!r} is not")
    try:
        value, vector, samples = _raw(hessian, products, torch_seed(seed, "directions", key), error, most)
    except (RuntimeError, MemoryError) as problem:
        if not memory.is_shortage(problem):
            raise
        raise Unfit(f"not enough memory{memory.requested(problem)}") from None
    row = torch.cat([part.detach().reshape(-1) for part in vector])
    row = row / row.norm().clamp(min=torch.finfo(row.dtype).tiny)
    residual = float((products(row[None])[0] - value * row).norm())
    trace = mean(samples, 0.0, error)
    return PyHessian(
        version=version("pyhessian"),
        top_eigenvalue=value,
        residual=residual,
        eigenvalue_converged=residual <= tolerance * abs(value),
        trace=trace.value,
        trace_standard_error=trace.standard_error,
        trace_vectors=trace.samples,
        trace_converged=trace.converged,
    )


def _raw(
    hessian: Any, products: HessianProducts, seed: int, error: float, most: int
) -> tuple[float, list[Tensor], list[float]]:
    """Return the top eigenvalue, its vector by tensor, and the samples of the trace."""
    like = products.parameters[0]
    try:
        with _isolated(like.dtype, seed):
            estimator = hessian(products.model, products.loss, dataloader=products.batches, cuda=like.is_cuda)
            (value,), (vector,) = estimator.eigenvalues(maxIter=ITERATIONS, tol=TOLERANCE)
            samples: list[float] = []
            while len(samples) < most and not (samples and mean(samples, 0.0, error).converged):
                # A tolerance of minus infinity disables its stopping rule.
                samples += estimator.trace(maxIter=min(MIN_SAMPLES, most - len(samples)), tol=-math.inf)
    finally:
        products.model.zero_grad(set_to_none=True)
    return value, vector, samples


def _unused_parameter(products: HessianProducts) -> str | None:
    """Return the name of a parameter with a zero row of the Hessian, None without."""
    names = [name for name, parameter in products.model.named_parameters() if parameter.requires_grad]
    inputs, targets = next(iter(products.batches))
    loss = products.loss(products.model(inputs[:1]), targets[:1])
    gradients = torch.autograd.grad(loss, products.parameters, create_graph=True, allow_unused=True)
    curved = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
    weights = [gradient.detach() for gradient in curved]
    second = torch.autograd.grad(curved, products.parameters, weights, allow_unused=True)
    return next((name for name, gradient in zip(names, second, strict=True) if gradient is None), None)


@contextlib.contextmanager
def _isolated(dtype: torch.dtype, seed: int) -> Iterator[None]:
    default = torch.get_default_dtype()
    with torch.random.fork_rng(), warnings.catch_warnings():
        # It clears the memory cycle of which torch warns.
        warnings.filterwarnings("ignore", message="Using backward\\(\\) with create_graph=True")
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(default)
