"""The run's model and rows in the form that trains fastest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from flatfed.algorithms import Algorithm
from flatfed.engine.speed import products, row_layers, taps
from flatfed.engine.weights import Weights

ALIGNMENT = 64  # coordinates: all rows start at a multiple of 16 bytes, in bfloat16, too


class LiveWeights(Weights):
    """Weights with one coordinate for all dead taps; ``parameters`` and :meth:`tensors` are those of the full model."""

    def __init__(self, live: taps.LiveTaps, initial: Tensor, device: torch.device, dtype: torch.dtype):
        super().__init__(live.model, live.reduce(initial.to(dtype)), device, dtype)
        self.taps, self.parameters, self.layout = live, len(initial), live.layout

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        return self.taps.full.views(self.taps.expand(row))


def weights(
    model: nn.Module,
    initial: Tensor,
    algorithm: Algorithm,
    shape: tuple[int, int, int],
    device: torch.device,
    dtype: torch.dtype,
    full_model: bool = False,
    rows_at_once: bool = False,
) -> Weights:
    """Return the ``initial`` weights (parameters,) of ``model`` for images of ``shape`` (C, H, W).

    Without dead taps if ``algorithm`` treats whole rows only, unless ``full_model``. ``rows_at_once``: with the layers
    of :mod:`row_layers` and the rows that suit them, otherwise with small convolutions as products.
    """
    fast = row_layers.convert if rows_at_once else partial(products.with_products, shape=shape)
    if full_model or not algorithm.keeps_rows_whole():
        return Weights(fast(model), initial, device, dtype)
    live = taps.live_taps(model, shape, initial)
    if rows_at_once:
        live = live or taps.all_taps(model)
        extra = -live.layout.tensor_size % ALIGNMENT or ALIGNMENT
        live = replace(live, layout=replace(live.layout, extra=extra, channels_last=True))
    if live is None:
        return Weights(fast(model), initial, device, dtype)
    return LiveWeights(replace(live, model=fast(live.model)), initial, device, dtype)
