"""ResNet-18 (He et al. 2016) with GroupNorm and torchvision's tensor names, without torchvision, for bare GPU hosts.

``stem=imagenet, groups=2``: the official FedSMOO and FedLESAM model (11,181,642 parameters for 10 classes, 11,227,812
for 100). ``stem=cifar, groups=32``: DFedSAM's (11,173,962 and 11,220,132), initialised by torch as in DisPFL's code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu


class Norm(nn.GroupNorm):
    """relu(GroupNorm(x) + shortcut); without ``shortcut`` no addition, without ``rectify`` no ReLU."""

    def forward(self, x: Tensor, shortcut: Tensor | None = None, rectify: bool = False) -> Tensor:
        x = super().forward(x)
        x = x if shortcut is None else x + shortcut
        return relu(x) if rectify else x


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(F(x) + shortcut(x))."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn1(self.conv1(x), rectify=True)
        return self.bn2(self.conv2(x), shortcut, rectify=True)


class ResNet18(nn.Module):
    """Stem, four stages of two blocks, mean over the pixels, one dense layer; ``norm``: channels -> normalisation."""

    def __init__(self, shape: tuple[int, int, int], classes: int, stem: str, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.pooled = stem == "imagenet"
        size, stride = (7, 2) if self.pooled else (3, 1)
        self.conv1 = nn.Conv2d(shape[0], 64, size, stride, size // 2, bias=False)
        self.bn1 = norm(64)
        inputs = 64
        for stage, outputs in enumerate((64, 128, 256, 512), start=1):
            widening = BasicBlock(inputs, outputs, 1 if stage == 1 else 2, norm)
            setattr(self, f"layer{stage}", nn.Sequential(widening, BasicBlock(outputs, outputs, 1, norm)))
            inputs = outputs
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        x = self.bn1(self.conv1(x))
        x = relu(max_pool2d(x, 3, 2, 1) if self.pooled else x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))  # under vmap, adaptive_avg_pool2d would run row by row

    def initial(self, name: str, value: Tensor, generator: torch.Generator) -> bool:
        """Draw convolutions by torchvision's rule, He normal over fan_out, unless the stem is DisPFL's."""
        he_normal = self.pooled and value.dim() == 4
        if he_normal:
            nn.init.kaiming_normal_(value, mode="fan_out", nonlinearity="relu", generator=generator)
        return he_normal


def build(shape: tuple[int, int, int], classes: int, stem: str, groups: int) -> ResNet18:
    """Return ResNet-18 with GroupNorm for images of ``shape`` (C, H, W)."""
    return ResNet18(shape, classes, stem, partial(Norm, groups))
