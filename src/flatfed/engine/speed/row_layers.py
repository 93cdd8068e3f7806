"""A model whose convolutions and GroupNorms compute all rows at once, for a GPU."""

from __future__ import annotations

import copy

from torch import nn

from flatfed.engine.speed.row_convolution import RowConv2d
from flatfed.engine.speed.row_norm import RowGroupNorm
from flatfed.engine.speed.taps import Cropped, Window
from flatfed.models.resnet18_gn import Norm

CONVERTED = {nn.Conv2d: RowConv2d, Cropped: RowConv2d, nn.GroupNorm: RowGroupNorm, Norm: RowGroupNorm}


def convert(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` with the layers above; other layers, groups, dilation and padding by name stay."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
            if not plain or isinstance(module.padding, str) or type(module) not in CONVERTED:
                continue
            module.window = Window.of(module)
        if type(module) in CONVERTED and (not isinstance(module, nn.GroupNorm) or module.affine):
            module.__class__ = CONVERTED[type(module)]
    return model
