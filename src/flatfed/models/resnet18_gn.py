"""ResNet-18 (He et al. 2016) with GroupNorm in the place of every BatchNorm, tensor by tensor as torchvision's.

``stem=imagenet, groups=2`` is the official FedSMOO and FedLESAM model (11,181,642 parameters for 10 classes, 11,227,812
for 100), which is torchvision's, its weights drawn by torchvision's rule; ``stem=cifar, groups=32`` that of DFedSAM's
group (11,173,962 and 11,220,132), a class of its own in DisPFL's code that leaves convolutions as PyTorch makes them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, max_pool2d, relu


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; names are torchvision's, ``bn`` included: weights can be exchanged."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.GroupNorm(groups, outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.GroupNorm(groups, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(F(x) + shortcut(x))."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = relu(self.bn1(self.conv1(x)))
        return relu(self.bn2(self.conv2(x)) + shortcut)


class ResNet18(nn.Module):
    """Stem, four stages of two blocks, mean over the image, one dense layer."""

    def __init__(self, shape: tuple[int, int, int], classes: int, stem: str, groups: int):
        super().__init__()
        self.pooled = stem == "imagenet"
        size, stride = (7, 2) if self.pooled else (3, 1)
        self.conv1 = nn.Conv2d(shape[0], 64, size, stride, size // 2, bias=False)
        self.bn1 = nn.GroupNorm(groups, 64)
        inputs = 64
        for stage, outputs in enumerate((64, 128, 256, 512), start=1):
            first = BasicBlock(inputs, outputs, 1 if stage == 1 else 2, groups)
            setattr(self, f"layer{stage}", nn.Sequential(first, BasicBlock(outputs, outputs, 1, groups)))
            inputs = outputs
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        x = self.bn1(self.conv1(x))
        x = relu(max_pool2d(x, 3, 2, 1) if self.pooled else x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(adaptive_avg_pool2d(x, 1), 1))

    def initial(self, name: str, value: Tensor, generator: torch.Generator) -> bool:
        """With torchvision's stem its rule, He et al.'s normal over fan_out for convolutions; all else is torch's."""
        of_torchvision = self.pooled and value.dim() == 4
        if of_torchvision:
            nn.init.kaiming_normal_(value, mode="fan_out", nonlinearity="relu", generator=generator)
        return of_torchvision


build = ResNet18
