"""VGG-11 (Simonyan and Zisserman 2015, configuration A) with GroupNorm after every convolution and one dense layer.

DFedSAM's model for CIFAR-10: 9,231,114 parameters for 10 classes, 9,277,284 for 100.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))


class VGG11(nn.Module):
    """Five stages of padded 3x3 convolutions with 2x2 pools, then a dense layer on the H/32 x W/32 pixels."""

    def __init__(self, shape: tuple[int, int, int], classes: int, groups: int):
        super().__init__()
        inputs, self.stages = shape[0], nn.ModuleList()
        for widths in STAGES:
            layers: list[nn.Module] = []
            for outputs in widths:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(groups, outputs)]
                inputs = outputs
            self.stages.append(nn.Sequential(*layers))
        self.classifier = nn.Linear(inputs * (shape[1] // 32) * (shape[2] // 32), classes)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        for stage in self.stages:
            for layer in stage[:-1]:
                x = relu(layer(x)) if isinstance(layer, nn.GroupNorm) else layer(x)
            x = relu(max_pool2d(stage[-1](x), 2))
        return self.classifier(torch.flatten(x, 1))

    def initial(self, name: str, value: Tensor, generator: torch.Generator) -> bool:
        """Draw by torchvision's rule: He normal over fan_out, dense weights with deviation 0.01, zero biases."""
        if value.dim() == 4:
            nn.init.kaiming_normal_(value, mode="fan_out", nonlinearity="relu", generator=generator)
        elif value.dim() == 2:
            value.normal_(0.0, 0.01, generator=generator)
        elif name.endswith("bias"):
            value.zero_()
        return value.dim() > 1 or name.endswith("bias")


build = VGG11
