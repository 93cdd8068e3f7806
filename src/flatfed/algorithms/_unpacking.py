"""Errors of public code in unpacking a flat row into tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from flatfed.engine.layout import Layout


def heads(rows: Tensor, layout: Layout) -> Tensor:
    """Return rows (rows, parameters) in which every tensor of n coordinates holds the first n of its row.

    Reproduces a bug: the index never advances.
    """
    unpacked = rows.new_empty(rows.shape)
    for part in layout.slices().values():
        unpacked[:, part] = rows[:, : part.stop - part.start]
    return unpacked


def scalars(rows: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return rows whose tensor k is filled with coordinate k, and the absolute sums (rows, 1) of these coordinates.

    Reproduces a bug: the flat row is indexed by the tensor's number.
    """
    values = rows[:, : len(layout.names)]
    unpacked = rows.new_empty(rows.shape)
    for number, part in enumerate(layout.slices().values()):
        unpacked[:, part] = values[:, number, None]
    return unpacked, values.abs().sum(dim=1, keepdim=True)
