"""Errors of public code in unpacking a flat row into tensors."""

from __future__ import annotations

from flatfed.algorithms._context import Tensor
from flatfed.algorithms._layout import Layout
from flatfed.algorithms._rows import EPSILON


def heads(rows: Tensor, layout: Layout) -> Tensor:
    """Return rows (rows, parameters) in which every tensor of n coordinates holds the first n of its row.

    Reproduces a bug: the index never advances.
    """
    unpacked = rows.new_empty(rows.shape)
    for part in layout.slices().values():
        unpacked[:, part] = rows[:, : part.stop - part.start]
    return unpacked


def by_tensor_number(rows: Tensor, layout: Layout, length: float) -> Tensor:
    """Return rows (rows, parameters) in which tensor k holds ``length`` d_k / sum_j |d_j|, d its row.

    Reproduces a bug: the row is indexed by the tensor's number. j runs up to the number of tensors. On a ResNet-18 the
    norm is about sixty times ``length``.
    """
    values = rows[:, : len(layout.names)]
    unpacked = rows.new_empty(rows.shape)
    for number, part in enumerate(layout.slices().values()):
        unpacked[:, part] = values[:, number, None]
    return unpacked * (length / (values.abs().sum(dim=1, keepdim=True) + EPSILON))
