"""The CNN with padded 5x5 convolutions of FL-SAM (commit 2c16149), after McMahan et al. 2017."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu


class CNN5x5(nn.Module):
    """conv 5x5 (32) - pool - conv 5x5 (64) - pool - dense 512 - dense: 2,156,490 parameters for CIFAR-10."""

    def __init__(self, shape: tuple[int, int, int], classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.dense1 = nn.Linear(64 * (shape[1] // 4) * (shape[2] // 4), 512)
        self.dense2 = nn.Linear(512, classes)

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        x = relu(max_pool2d(self.conv1(x), 2))
        x = relu(max_pool2d(self.conv2(x), 2))
        return self.dense2(relu(self.dense1(x.flatten(1))))


build = CNN5x5
