"""ResNet-18 (He et al. 2016) with BatchNorm and the stem for CIFAR, a 3x3 convolution without pooling.

11,173,962 parameters for 10 classes, 11,220,132 for 100; initialised by torch.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from flatfed.models.resnet18_gn import ResNet18


class Norm(nn.BatchNorm2d):
    """relu(BatchNorm(x) + shortcut); without ``shortcut`` no addition, without ``rectify`` no ReLU."""

    def forward(self, x: Tensor, shortcut: Tensor | None = None, rectify: bool = False) -> Tensor:
        x = super().forward(x)
        x = x if shortcut is None else x + shortcut
        return relu(x) if rectify else x


def build(shape: tuple[int, int, int], classes: int) -> ResNet18:
    """Return the module for images of ``shape`` (C, H, W)."""
    return ResNet18(shape, classes, "cifar", Norm)
