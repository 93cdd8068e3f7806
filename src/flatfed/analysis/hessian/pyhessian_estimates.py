"""PyHessian's estimates (Yao, Gholami, Keutzer and Mahoney 2020), which the papers most likely used.

Its release 0.1 is called as it is. What is worked round here: it takes CUDA for granted; its vectors are of torch's
default precision and drawn from torch's global generator; it ends a trace as soon as two running means are close, which
for a negative mean is at once, and gives no error; it says nothing of whether a power iteration has converged; it
fails at a parameter that is no part of the loss; and it warns at every product of a cycle in memory, which it clears
itself. Power iteration finds the eigenvalue of the largest size, be it negative.
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

from flatfed.analysis.hessian.estimates import FEWEST, Mean, mean
from flatfed.analysis.hessian.vector_products import Products
from flatfed.data.streams import torch_seed
from flatfed.engine.memory import shortage
from flatfed.errors import FlatFedError
from flatfed.runs.curvature import PyHessian

ITERATIONS = 100  # of a power iteration, its own default
CHANGE = 1e-6  # relative change of the eigenvalue that ends one; its default, 1e-3, ends far from the eigenvector


class Unfit(FlatFedError):
    """PyHessian has no estimate, for the reason that the message says."""


def estimate(products: Products, seed: int, key: int, *, tolerance: float, error: float, most: int) -> PyHessian:
    """Return PyHessian's top eigenvalue and trace for the model, loss and batches of ``products``.

    ``residual`` is ||H v - lambda v|| of its own lambda and v, by a product of ours; ``eigenvalue_converged`` says
    whether it is at most ``tolerance`` |lambda|. The trace is the mean of its samples, as many as bring their standard
    error to ``error`` of it, ``most`` at most.

    Raises Unfit where it cannot be had of this model on this device, FlatFedError where PyHessian is not installed.
    """
    try:
        from pyhessian import hessian
    except ImportError as missing:
        remedy = "pip install pyhessian, or leave its estimate out with --without-pyhessian"
        raise FlatFedError(f"PyHessian is not installed ({missing}): {remedy}") from None
    if idle := _idle(products):
        raise Unfit(f"it takes every parameter to be part of the loss and of its gradient, and {idle!r} is not")
    try:
        value, vector, samples = _raw(hessian, products, torch_seed(seed, "directions", key), error, most)
    except (RuntimeError, MemoryError) as problem:
        if not shortage.is_shortage(problem):
            raise
        raise Unfit(f"not enough memory{shortage.requested(problem)}") from None
    row = torch.cat([part.detach().reshape(-1) for part in vector])
    row = row / row.norm().clamp(min=torch.finfo(row.dtype).tiny)
    residual = float((products(row[None])[0] - value * row).norm())
    traced: Mean = mean(samples, 0.0, error)
    return PyHessian(
        version=version("pyhessian"),
        top_eigenvalue=value,
        residual=residual,
        eigenvalue_converged=residual <= tolerance * abs(value),
        trace=traced.value,
        trace_standard_error=traced.standard_error,
        trace_vectors=traced.samples,
        trace_converged=traced.converged,
    )


def _raw(
    hessian: Any, products: Products, seed: int, error: float, most: int
) -> tuple[float, list[Tensor], list[float]]:
    """Return PyHessian's top eigenvalue, its vector, tensor by tensor, and the samples of its trace."""
    place = products.parameters[0]
    try:
        with _quiet(place.dtype, seed):
            found = hessian(products.model, products.loss, dataloader=products.batches, cuda=place.is_cuda)
            (value,), (vector,) = found.eigenvalues(maxIter=ITERATIONS, tol=CHANGE)
            samples: list[float] = []
            while len(samples) < most and not (samples and mean(samples, 0.0, error).converged):
                # No running mean is closer than minus infinity: it draws as many as it is told to.
                samples += found.trace(maxIter=min(FEWEST, most - len(samples)), tol=-math.inf)
    finally:
        products.model.zero_grad(set_to_none=True)
    return value, vector, samples


def _idle(products: Products) -> str | None:
    """Return the name of a parameter that the loss does not depend on, or only linearly and by itself; else None."""
    names = [name for name, parameter in products.model.named_parameters() if parameter.requires_grad]
    inputs, targets = next(iter(products.batches))
    mean = products.loss(products.model(inputs[:1]), targets[:1])
    first = torch.autograd.grad(mean, products.parameters, create_graph=True, allow_unused=True)
    bent = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
    second = torch.autograd.grad(bent, products.parameters, [each.detach() for each in bent], allow_unused=True)
    return next((name for name, gradient in zip(names, second, strict=True) if gradient is None), None)


@contextlib.contextmanager
def _quiet(dtype: torch.dtype, seed: int) -> Iterator[None]:
    """Make ``dtype`` torch's default and seed its global generators, both as before afterwards; hide one warning."""
    default = torch.get_default_dtype()
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using backward\\(\\) with create_graph=True")
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(default)
