"""Trace of a symmetric matrix from products with random vectors of signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from flatfed.analysis.hessian.eigen import Draw, Eigen
from flatfed.analysis.hessian.vector_products import Products

#: Samples before a standard error is believed: to stop where it happens to be small makes it too small. With 16, two
#: errors cover the truth in 92 % of seeds where they ought to in 94 %, and the estimate is biased; with 32, neither.
FEWEST = 32


@dataclass(frozen=True)
class Mean:
    """An estimate with its standard error, from ``samples`` values, and whether the error is as small as asked for.

    ``parts``: the same estimate of every part of the images, from the same vectors; empty where there are none.
    """

    value: float
    standard_error: float
    samples: int
    converged: bool
    parts: Sequence[float] = ()


def mean(samples: list[float], head: float, error: float) -> Mean:
    """Return ``head`` plus the mean of ``samples``; converged where its standard error is at most ``error`` of it."""
    value = head + float(np.mean(samples))
    deviation = float(np.std(samples, ddof=1)) / math.sqrt(len(samples)) if len(samples) > 1 else math.inf
    return Mean(value, deviation, len(samples), len(samples) >= FEWEST and deviation <= error * abs(value))


def trace(products: Products, draw: Draw, known: Eigen, *, error: float, most: int) -> Mean:
    """Return the trace: that of the ``known`` eigenvectors, and of the rest the mean of z' H z (Hutchinson 1990).

    With the orthonormal rows V of ``known``, tr H = sum v' H v + tr (I - V'V) H (I - V'V) whether or not V has
    converged, and so of every part's Hessian; without the largest eigenvalues the second part varies far less. Ends
    when the standard error is at most ``error`` of the trace, after ``FEWEST`` vectors or more, and at the latest after
    ``most``.
    """
    head, samples = float(known.values.double().sum()), []
    by_part: list[np.ndarray] = []  # (parts, vectors) of each block
    while len(samples) < most:
        count = min(products.block, most - len(samples))
        z = torch.stack([draw(len(samples) + i) for i in range(count)])
        for _ in range(2):
            z -= (z @ known.vectors.T) @ known.vectors
        images, forms = products.with_forms(z)
        samples += torch.linalg.vecdot(z, images).double().tolist()
        by_part.append(_diagonals(forms))
        found = mean(samples, head, error)
        if found.converged:
            break
    rest = np.concatenate(by_part, axis=1).mean(axis=1)
    return replace(found, parts=(_diagonals(known.forms).sum(axis=1) + rest).tolist())


def _diagonals(forms: Tensor) -> np.ndarray:
    """Return the diagonals (parts, n) of ``forms`` (parts, n, n)."""
    return forms.diagonal(dim1=1, dim2=2).cpu().numpy()
