"""The CNN with two convolutions of Reddi et al. 2021 (appendix, EMNIST), also for CIFAR."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu


class CNN(nn.Module):
    """conv 3x3 (32) - conv 3x3 (64) - pool - dropout - dense 128 - dropout - dense, unpadded.

    ``pooling="each"``: also pool after the first convolution. 1,206,590 parameters for 28 x 28 x 1 and 62 classes.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, pooling: str, dropout1: float, dropout2: float):
        super().__init__()
        self.pool_first = pooling == "each"
        self.conv1 = nn.Conv2d(shape[0], 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        sides = [((side - 2) // 2 - 2) // 2 if self.pool_first else (side - 4) // 2 for side in shape[1:]]
        features = 64 * sides[0] * sides[1]
        self.dense1 = nn.Linear(features, 128)
        self.dense2 = nn.Linear(128, classes)
        sites = (((64, *sides), dropout1), ((128,), dropout2))
        self.dropout = [site for site in sites if site[1] > 0]
        self._drops = dropout1 > 0, dropout2 > 0

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        remaining = iter(masks or ())
        x = self.conv1(x)
        x = relu(max_pool2d(x, 2) if self.pool_first else x)
        x = relu(max_pool2d(self.conv2(x), 2))
        if masks and self._drops[0]:
            x = x * next(remaining)
        x = relu(self.dense1(torch.flatten(x, 1)))
        if masks and self._drops[1]:
            x = x * next(remaining)
        return self.dense2(x)


build = CNN
