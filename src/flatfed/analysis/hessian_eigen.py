"""The largest eigenvalues of a symmetric matrix of which only products with vectors are known.

Block Lanczos with thick restart (Wu and Simon, SIAM J. Matrix Anal. Appl. 22, 2000, for single vectors) and full
orthogonalisation: a block finds eigenvalues that occur as often as it is wide, and lets products share their graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.analysis.hessian_products import Products

Draw = Callable[[int], Tensor]  # number of a random vector -> the vector (parameters,)


@dataclass(frozen=True)
class Eigen:
    """``values`` (k,) in falling order (Rayleigh quotients), orthonormal ``vectors`` (k, parameters), ``residuals``
    (k,) ||H v - lambda v||, and whether all of them are as small as was asked for."""

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool

    def to(self, device: torch.device) -> Eigen:
        """Return the same on ``device``."""
        return Eigen(self.values.to(device), self.vectors.to(device), self.residuals.to(device), self.converged)


def top(products: Products, draw: Draw, count: int, *, tolerance: float, most: int) -> Eigen:
    """Return the ``count`` largest eigenvalues, by value and not by size, with their vectors.

    Ends when every residual is at most ``tolerance`` |lambda|, or 100 roundings of the largest eigenvalue, and at the
    latest after ``most`` products, if there are ``count`` by then. Residuals are measured in the end, by products of
    their own.
    """
    size, block = products.size, min(products.block, products.size)
    first = _Growing(draw).orthonormal(torch.stack([draw(i) for i in range(block)]), None, block)
    room, kept = min(size, 2 * count + 4 * block), min(size, count + block)
    basis = first.new_empty(room, size)
    growing, new, filled, projected = _Growing(draw, block), first, 0, None
    values = ritz = first.new_empty(0, 0)
    while True:
        if filled + len(new) > room:
            # The best Ritz vectors carry on in place of all; what joins them to the new block is computed anew.
            basis[:kept] = ritz[:, :kept].T.to(basis) @ basis[:filled]
            filled, projected = kept, values[:kept].diag()
        before, filled = filled, filled + len(new)
        basis[before:filled] = new
        image = products(new)
        coupling = _remove(image, basis[:filled])
        projected = _extended(projected, coupling)
        values, ritz = torch.linalg.eigh(projected)
        values, ritz = values.flip(0), ritz.flip(1)
        if filled >= count:
            outside = (ritz[before:, :count].T.to(image) @ image).norm(dim=1).to(values)
            if (outside <= _allowed(values[:count], values, tolerance, basis.dtype)).all():
                break
        scale = float(values.abs().max())
        new = growing.orthonormal(image, basis[:filled], min(block, size - filled), scale)
        if not len(new) or (products.done >= most and filled >= count):
            break
    vectors = ritz[:, :count].T.to(basis) @ basis[:filled]
    del basis
    images = products(vectors)
    quotients = torch.linalg.vecdot(vectors, images)
    residuals = (images - quotients[:, None] * vectors).norm(dim=1)
    small = (residuals <= _allowed(quotients, values, tolerance, vectors.dtype)).all()
    return Eigen(quotients, vectors, residuals, bool(small) and len(quotients) == count)


def _allowed(wanted: Tensor, every: Tensor, tolerance: float, dtype: torch.dtype) -> Tensor:
    """Return the largest residual of each of ``wanted`` that is small."""
    rounding = 100 * torch.finfo(dtype).eps * float(every.abs().max())
    return (tolerance * wanted.abs()).clamp(min=rounding)


def _remove(block: Tensor, basis: Tensor) -> Tensor:
    """Take the span of ``basis`` out of ``block`` in place, twice; return the coefficients (basis, block), float64."""
    total = 0
    for _ in range(2):  # once more takes away what rounding left
        part = basis @ block.T
        block -= part.T @ basis
        total = total + part.double()
    return total


def _extended(projected: Tensor | None, coupling: Tensor) -> Tensor:
    """Return the projected matrix with the rows and columns ``coupling`` (all, new) of the new block."""
    count, new = coupling.shape
    larger = coupling.new_zeros(count, count)
    if projected is not None:
        larger[: count - new, : count - new] = projected
    larger[:, count - new :] = coupling
    larger[count - new :] = coupling.T
    own = coupling[count - new :]
    larger[count - new :, count - new :] = (own + own.T) / 2
    return larger


class _Growing:
    """Makes the next block; directions that are used up give way to random ones, from number ``used`` on."""

    def __init__(self, draw: Draw, used: int = 0):
        self.draw, self.used = draw, used

    def orthonormal(self, rows: Tensor, basis: Tensor | None, count: int, scale: float = 0.0) -> Tensor:
        """Return up to ``count`` orthonormal vectors from ``rows``, which are orthogonal to ``basis`` already."""
        found = rows.new_empty(0, rows.shape[1])
        smallest = 100 * torch.finfo(rows.dtype).eps * scale
        for row in rows[:count]:
            row = self._unit(row, found, smallest)
            while row is None:
                fresh = self.draw(self.used)
                self.used += 1
                fresh = fresh / fresh.norm()
                if basis is not None:
                    _remove(fresh[None], basis)
                row = self._unit(fresh, found, 100 * torch.finfo(rows.dtype).eps)
            found = torch.cat([found, row[None]])
        return found

    @staticmethod
    def _unit(row: Tensor, found: Tensor, smallest: float) -> Tensor | None:
        """Return ``row`` without the span of ``found``, at length 1; None where no more than rounding is left."""
        row = row.clone()
        if len(found):
            _remove(row[None], found)
        length = float(row.norm())
        return row / length if length > smallest else None
