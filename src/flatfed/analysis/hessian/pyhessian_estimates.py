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
    try:
        value, vector, samples = _raw(hessian, products, torch_seed(seed, "directions", key), error, most)
    except Exception as problem:  # of any type, such as AttributeError if the loss does not use a parameter
        raise Unfit(f"it failed: {type(problem).__name__}: {' '.join(str(problem).split())}") from None
    row = torch.cat([part.detach().reshape(-1) for part in vector])
    row = row / row.norm().clamp(min=torch.finfo(row.dtype).tiny)
    residual = float((products(row[None])[0] - value * row).norm())
    trace = mean(samples, error)
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
            while len(samples) < most and not (samples and mean(samples, error).converged):
                # A tolerance of minus infinity disables its stopping rule.
                samples += estimator.trace(maxIter=min(MIN_SAMPLES, most - len(samples)), tol=-math.inf)
    finally:
        products.model.zero_grad(set_to_none=True)
    return value, vector, samples


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
