"""GroupNorm with an optional shortcut and ReLU."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu


class Norm(nn.GroupNorm):
    """relu(GroupNorm(x) + shortcut); without ``shortcut`` no addition, without ``rectify`` no ReLU."""

    def forward(self, x: Tensor, shortcut: Tensor | None = None, rectify: bool = False) -> Tensor:
        x = super().forward(x)
        x = x if shortcut is None else x + shortcut
        return relu(x) if rectify else x
