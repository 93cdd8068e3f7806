"""The run's model and rows in the form that trains fastest."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from flatfed.algorithms import Algorithm
from flatfed.engine.speed import products, taps
from flatfed.engine.speed.row_convolution import RowConv2d
from flatfed.engine.speed.row_norm import RowGroupNorm
from flatfed.engine.weights import Weights
from flatfed.models.resnet18_gn import Norm

ALIGNMENT = 64  # coordinates: all rows start at a multiple of 16 bytes, in bfloat16, too
CONVERTED = {nn.Conv2d: RowConv2d, taps.Cropped: RowConv2d, nn.GroupNorm: RowGroupNorm, Norm: RowGroupNorm}


class LiveWeights(Weights):
    """Weights with one coordinate for all dead taps; ``full`` and :meth:`views` are those of the full model."""

    def __init__(self, live: taps.LiveTaps, initial: Tensor, device: torch.device, dtype: torch.dtype):
        super().__init__(live.model, live.reduce(initial.to(dtype)), device, dtype)
        self.taps, self.layout, self.full = live, live.layout, live.full

    def views(self, row: Tensor) -> dict[str, Tensor]:
        return self.full.views(self.taps.expand(row))


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
    of :func:`with_row_layers` and the rows that suit them, otherwise with small convolutions as products.
    """
    fast = with_row_layers if rows_at_once else partial(products.with_products, shape=shape)
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


def with_row_layers(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` whose ``CONVERTED`` layers compute all rows at once.

    Layers of other types, with groups, with dilation or with padding by name stay.
    """
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
            if not plain or isinstance(module.padding, str) or type(module) not in CONVERTED:
                continue
            module.window = taps.Window.of(module)
        if type(module) in CONVERTED and (not isinstance(module, nn.GroupNorm) or module.affine):
            module.__class__ = CONVERTED[type(module)]
    return model
