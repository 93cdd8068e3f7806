"""A tiny CNN for previews on the embedded 8 x 8 digits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu


class TinyCNN(nn.Module):
    """conv 3x3 (8) - pool - conv 3x3 (16) - pool - dense, padded: 1,898 parameters for 8 x 8 x 1 and 10 classes."""

    def __init__(self, shape: tuple[int, int, int], classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.dense = nn.Linear(16 * (shape[1] // 4) * (shape[2] // 4), classes)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        x = relu(max_pool2d(self.conv1(x), 2))
        x = relu(max_pool2d(self.conv2(x), 2))
        return self.dense(torch.flatten(x, 1))


build = TinyCNN
