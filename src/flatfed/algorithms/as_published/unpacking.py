"""An error of public code in unpacking a flat row into tensors."""

from __future__ import annotations

from flatfed.algorithms._context import Tensor
from flatfed.algorithms._layout import Layout


def heads(rows: Tensor, layout: Layout) -> Tensor:
    """Return rows (rows, parameters) in which every tensor of n coordinates holds the first n of its row.

    Reproduces a bug: the index never advances.
    """
    unpacked = rows.new_empty(rows.shape)
    for part in layout.slices().values():
        unpacked[:, part] = rows[:, : part.stop - part.start]
    return unpacked
