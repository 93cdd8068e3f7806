"""The run's model without dead taps and with small convolutions as products."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from flatfed.algorithms import Algorithm
from flatfed.engine.speed import products, taps
from flatfed.engine.weights import Weights


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
) -> Weights:
    """Return the ``initial`` weights (parameters,) of ``model`` for images of ``shape`` (C, H, W).

    Without dead taps if ``algorithm`` treats whole rows only, unless ``full_model``.
    """
    live = None if full_model or not algorithm.keeps_rows_whole() else taps.live_taps(model, shape, initial)
    if live is None:
        return Weights(products.with_products(model, shape), initial, device, dtype)
    return LiveWeights(replace(live, model=products.with_products(live.model, shape)), initial, device, dtype)
