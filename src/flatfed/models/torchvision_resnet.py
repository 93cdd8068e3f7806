"""torchvision's ResNets, wide ResNets and ResNeXts with GroupNorm instead of BatchNorm."""

from __future__ import annotations

from torch import nn
from torchvision.models import ResNet, get_model


def build(shape: tuple[int, int, int], classes: int, groups: int, name: str) -> ResNet:
    """Return torchvision's ``name`` for images of ``shape`` (C, H, W)."""
    model = get_model(name, num_classes=classes, norm_layer=lambda channels: nn.GroupNorm(groups, channels))
    if shape[0] != model.conv1.in_channels:
        model.conv1 = nn.Conv2d(shape[0], 64, 7, 2, 3, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    return model
