"""The tiny CNN with BatchNorm, for previews of set-ups whose model has it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from flatfed.models.cnn_tiny import TinyCNN


class TinyBatchNormCNN(TinyCNN):
    """:class:`TinyCNN` with BatchNorm after each convolution: 1,946 parameters for 8 x 8 x 1 and 10 classes."""

    def __init__(self, shape: tuple[int, int, int], classes: int):
        super().__init__(shape, classes)
        self.bn1, self.bn2 = nn.BatchNorm2d(8), nn.BatchNorm2d(16)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        x = relu(max_pool2d(self.bn1(self.conv1(x)), 2))
        x = relu(max_pool2d(self.bn2(self.conv2(x)), 2))
        return self.dense(torch.flatten(x, 1))


build = TinyBatchNormCNN
