"""The largest eigenvalues of a symmetric matrix of which only products with vectors are known.

Block Lanczos with thick restart (Wu and Simon, SIAM J. Matrix Anal. Appl. 22, 2000, for single vectors) and full
orthogonalisation. Blocks let products share their graphs, and find an eigenvalue as often as it occurs, but no more
often than there were random vectors. Where it occurs more often, copies of it are missed, which no residual shows: the
values after it may be too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.analysis.hessian.vector_products import Products

Draw = Callable[[int], Tensor]  # number of a random vector -> the vector (parameters,)


@dataclass(frozen=True)
class Eigen:
    """``values`` (k,) in falling order (Rayleigh quotients), orthonormal ``vectors`` (k, parameters), ``residuals``
    (k,) ||H v - lambda v||, and whether all of them are as small as was asked for.

    ``forms`` (parts, k, k): V H_p V' of the images' parts, in float64.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    forms: Tensor
    converged: bool


def top(products: Products, draw: Draw, count: int, *, tolerance: float, most: int) -> Eigen:
    """Return the ``count`` largest eigenvalues, by value and not by size, with their vectors.

    Ends when every residual is at most ``tolerance`` |lambda|, or 100 roundings of the largest eigenvalue, and at the
    latest after ``most`` products, if there are ``count`` by then. Residuals are measured in the end, by products of
    their own.
    """
    size, block, begun = products.size, min(products.block, products.size), products.done
    drawn = torch.stack([draw(i) for i in range(block)])
    following = _NextBlock(draw, block)
    new = following.orthonormal(drawn / drawn.norm(dim=1, keepdim=True), drawn[:0], block, 1.0)
    capacity, kept = min(size, 2 * count + 4 * block), min(size, count + block)
    basis = new.new_empty(capacity, size)
    filled = 0
    projected = values = ritz = new.new_empty(0, 0, dtype=torch.float64)
    while True:
        if filled + len(new) > capacity:
            # The best Ritz vectors carry on in place of all; what joins them to the new block is computed anew.
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
        new = following.orthonormal(image, basis[:filled], min(block, size - filled), scale)
        if not len(new) or (products.done - begun >= most and filled >= count):
            break
    vectors = ritz[:, :count].T.to(basis) @ basis[:filled]
    del basis
    images, forms = products.with_forms(vectors)
    quotients = torch.linalg.vecdot(vectors, images)
    residuals = (images - quotients[:, None] * vectors).norm(dim=1)
    allowed = _allowed(quotients, values, tolerance, vectors.dtype)
    small = (residuals <= allowed).all()
    return Eigen(quotients, vectors, residuals, forms, bool(small) and len(quotients) == count)


def _allowed(wanted: Tensor, every: Tensor, tolerance: float, dtype: torch.dtype) -> Tensor:
    """Return up to which residual (k,) each of the eigenvalues ``wanted`` (k,) counts as converged."""
    rounding = 100 * torch.finfo(dtype).eps * float(every.abs().max())
    return (tolerance * wanted.abs()).clamp(min=rounding)


def _project_out(block: Tensor, basis: Tensor) -> Tensor:
    """Take the span of ``basis`` out of ``block`` in place, twice; return the coefficients (basis, block), float64."""
    total = 0
    for _ in range(2):  # once more takes away what rounding left
        part = basis @ block.T
        block -= part.T @ basis
        total = total + part.double()
    return total


def _extended(projected: Tensor, coupling: Tensor) -> Tensor:
    """Return the projected matrix with the rows and columns ``coupling`` (all, new) of the new block."""
    across, own = coupling.split([len(projected), coupling.shape[1]])
    return torch.cat([torch.cat([projected, across], dim=1), torch.cat([across.T, (own + own.T) / 2], dim=1)])


class _NextBlock:
    """Makes the vectors of the next block. A direction that is used up is replaced by random vector number ``used``."""

    def __init__(self, draw: Draw, used: int):
        self.draw, self.used = draw, used

    def orthonormal(self, rows: Tensor, basis: Tensor, count: int, scale: float) -> Tensor:
        """Return up to ``count`` orthonormal vectors, made of ``rows``, and orthogonal to ``basis``.

        The rows are orthogonal to ``basis`` already, but for rounding. A row is used up if no more is left of it than
        the rounding of numbers as large as ``scale``.
        """
        found = rows.new_empty(0, rows.shape[1])
        rounding = 100 * torch.finfo(rows.dtype).eps
        for row in rows[:count]:
            row = self._unit(row, basis, found, rounding * scale)
            while row is None:
                fresh = self.draw(self.used)
                self.used += 1
                fresh = fresh / fresh.norm()
                _project_out(fresh[None], basis)
                row = self._unit(fresh, basis, found, rounding)
            found = torch.cat([found, row[None]])
        return found

    @staticmethod
    def _unit(row: Tensor, basis: Tensor, found: Tensor, smallest: float) -> Tensor | None:
        """Return ``row`` without the span of ``found``, at length 1; None where only rounding is left.

        Scaling to length 1 magnifies what rounding left of the spans of ``basis`` and ``found``: both are taken out
        once more.
        """
        row = row.clone()
        for least, spans in ((smallest, (found,)), (0.5, (basis, found))):
            for span in spans:
                _project_out(row[None], span)
            length = float(row.norm())
            if not length > least:
                return None
            row /= length
        return row
