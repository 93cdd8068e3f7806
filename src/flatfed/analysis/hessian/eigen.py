"""The largest eigenvalues of a symmetric matrix, from products with vectors.

Block Lanczos with thick restart (Wu and Simon, SIAM J. Matrix Anal. Appl. 22, 2000, for single vectors) and full
orthogonalisation. A block shares the graphs of its products and finds multiple eigenvalues. If a multiplicity exceeds
the number of random vectors, copies are missing and later values may be too small; no residual shows this.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.analysis.hessian.vector_products import HessianProducts

Draw = Callable[[int], Tensor]  # number of a random vector -> the vector (parameters,)


@dataclass(frozen=True)
class Eigenpairs:
    """Rayleigh quotients ``values`` (k,), falling, orthonormal ``vectors`` (k, parameters) and ``residuals`` (k,).

    A residual is ||H v - lambda v||. ``forms`` (parts, k, k), float64: V H_p V' for each part of the images.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    forms: Tensor
    converged: bool


def top(products: HessianProducts, draw: Draw, count: int, *, tolerance: float, most: int) -> Eigenpairs:
    """Return the ``count`` largest eigenvalues (by value, not by size) with their vectors.

    Stops when every residual is at most ``tolerance`` |lambda| or 100 roundings of the largest eigenvalue, or after
    ``most`` products if there are ``count`` eigenvalues. Recomputes the final residuals.
    """
    size, block, begun = products.size, min(products.block, products.size), products.done
    drawn = torch.stack([draw(i) for i in range(block)])
    spares = map(draw, itertools.count(block))
    new = _orthonormal(drawn / drawn.norm(dim=1, keepdim=True), drawn[:0], block, 1.0, spares)
    capacity, kept = min(size, 2 * count + 4 * block), min(size, count + block)
    basis = new.new_empty(capacity, size)
    filled = 0
    projected = values = ritz = new.new_empty(0, 0, dtype=torch.float64)
    while True:
        if filled + len(new) > capacity:
            # Restart from the best Ritz vectors. The product below couples them to the new block.
            basis[:kept] = ritz[:, :kept].T.to(basis) @ basis[:filled]
            filled, projected = kept, values[:kept].diag()
        before, filled = filled, filled + len(new)
        basis[before:filled] = new
        image = products(new)
        coupling = _project_out(image, basis[:filled])
        projected = _extended(projected, coupling)
        values, ritz = torch.linalg.eigh(projected)
        values, ritz = values.flip(0), ritz.flip(1)
        if filled >= count:
            outside = (ritz[before:, :count].T.to(image) @ image).norm(dim=1).to(values)
            if (outside <= _allowed(values[:count], values, tolerance, basis.dtype)).all():
                break
        scale = float(values.abs().max())
        new = _orthonormal(image, basis[:filled], min(block, size - filled), scale, spares)
        if not len(new) or (products.done - begun >= most and filled >= count):
            break
    vectors = ritz[:, :count].T.to(basis) @ basis[:filled]
    del basis
    images, forms = products.with_forms(vectors)
    quotients = torch.linalg.vecdot(vectors, images)
    residuals = (images - quotients[:, None] * vectors).norm(dim=1)
    small = (residuals <= _allowed(quotients, values, tolerance, vectors.dtype)).all()
    return Eigenpairs(quotients, vectors, residuals, forms, bool(small) and len(quotients) == count)


def _allowed(eigenvalues: Tensor, spectrum: Tensor, tolerance: float, dtype: torch.dtype) -> Tensor:
    """Return the largest residuals (k,) of converged ``eigenvalues`` (k,)."""
    rounding = 100 * torch.finfo(dtype).eps * float(spectrum.abs().max())
    return (tolerance * eigenvalues.abs()).clamp(min=rounding)


def _project_out(block: Tensor, basis: Tensor) -> Tensor:
    """Remove the span of ``basis`` from ``block`` in place; return the coefficients (basis, block) in float64."""
    total = 0
    for _ in range(2):  # the second pass removes the rounding of the first
        part = basis @ block.T
        block -= part.T @ basis
        total = total + part.double()
    return total


def _extended(projected: Tensor, coupling: Tensor) -> Tensor:
    """Return the projected matrix with the new rows and columns ``coupling`` (all, new)."""
    across, diagonal = coupling.split([len(projected), coupling.shape[1]])
    diagonal = (diagonal + diagonal.T) / 2
    return torch.cat([torch.cat([projected, across], dim=1), torch.cat([across.T, diagonal], dim=1)])


def _orthonormal(rows: Tensor, basis: Tensor, count: int, scale: float, spares: Iterator[Tensor]) -> Tensor:
    """Return ``count`` orthonormal vectors from ``rows``, which are orthogonal to ``basis`` up to rounding.

    One of ``spares`` replaces a row that is only the rounding of numbers of size ``scale``.
    """
    block = rows.new_empty(0, rows.shape[1])
    rounding = 100 * torch.finfo(rows.dtype).eps
    for row in rows[:count]:
        vector = _unit(row, basis, block, rounding * scale)
        while vector is None:
            spare = next(spares)
            spare = spare / spare.norm()
            _project_out(spare[None], basis)
            vector = _unit(spare, basis, block, rounding)
        block = torch.cat([block, vector[None]])
    return block


def _unit(row: Tensor, basis: Tensor, block: Tensor, smallest: float) -> Tensor | None:
    """Return ``row`` without the span of ``block``, at length 1; None if at most ``smallest`` is left.

    Scaling magnifies the rounding in the spans of ``basis`` and ``block``: both are removed again.
    """
    row = row.clone()
    for least, spans in ((smallest, (block,)), (0.5, (basis, block))):
        for span in spans:
            _project_out(row[None], span)
        length = float(row.norm())
        if not length > least:
            return None
        row /= length
    return row
