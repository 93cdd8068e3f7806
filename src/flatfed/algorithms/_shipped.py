"""How public code unpacks a flat row into tensors where it does not follow the tensors' own places.

Each is a slip of published code that made printed numbers; choices of algorithms that have one name its repository and
commit. They act by place: an algorithm says so by its choice's ``by_place``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.layout import Layout


def heads(rows: Tensor, layout: Layout) -> Tensor:
    """Return rows (rows, parameters) in which every tensor, of n coordinates, holds the first n of its row.

    What comes of an unpacking that never moves its index on: all tensors are read from the row's beginning.
    """
    unpacked = rows.new_empty(rows.shape)
    for place in layout.slices().values():
        unpacked[:, place] = rows[:, : place.stop - place.start]
    return unpacked


def scalars(rows: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return rows in which all of tensor k holds coordinate k of its row, and the sums (rows, 1) of these, absolute.

    What comes of indexing the flat row by a tensor's number, of tensors counted as the model lists them.
    """
    taken = rows[:, : len(layout.names)]
    unpacked = rows.new_empty(rows.shape)
    for number, place in enumerate(layout.slices().values()):
        unpacked[:, place] = taken[:, number, None]
    return unpacked, taken.abs().sum(dim=1, keepdim=True)
