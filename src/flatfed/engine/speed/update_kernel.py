"""A Triton kernel that clips, decays and moves rows."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _descend(w, d, factors, lr, shrink, size, row_w, row_d, TILE: tl.constexpr):
    """A tile of a row: w <- w - lr (factor d + shrink w)."""
    row = tl.program_id(1).to(tl.int64)
    offset = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = offset < size
    values = tl.load(w + row * row_w + offset, mask=inside)
    step = tl.load(d + row * row_d + offset, mask=inside) * tl.load(factors + row) + shrink * values
    tl.store(w + row * row_w + offset, values - tl.load(lr) * step, mask=inside)


def descend(w: Tensor, d: Tensor, factors: Tensor, lr: Tensor, shrink: float) -> None:
    """Move the rows ``w`` in offset: w <- w - lr (factor d + shrink w); ``factors`` (rows,), ``lr`` 0-d."""
    rows, size = w.shape
    grid = (triton.cdiv(size, 2048), rows)
    _descend[grid](w, d, factors, lr, shrink, size, w.stride(0), d.stride(0), TILE=2048)
