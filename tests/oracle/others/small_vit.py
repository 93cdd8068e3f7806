"""A vision transformer whose position embedding is fixed: sines and cosines in a buffer."""

import torch
from torch import nn


def sines(count, width):
    """Return the embedding (1, count, width) of Vaswani et al. 2017."""
    angles = torch.arange(count)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=2).reshape(1, count, width)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, shape, classes, patch=4, width=12, heads=3, depth=2):
        super().__init__()
        count = (shape[1] // patch) * (shape[2] // patch)
        self.embed = nn.Conv2d(shape[0], width, patch, patch)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        nn.init.trunc_normal_(self.token, std=0.02)
        self.register_buffer("position", sines(count + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def build(shape, classes):
    return ViT(shape, classes)
