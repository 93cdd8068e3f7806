"""A vision transformer whose position embedding is fixed: sines and cosines in a buffer."""

import torch
from torch import nn


def sines(count, width):
    """Return the embedding (1, count, width) of Vaswani et al. 2017."""
    angles = torch.arange(count)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=2).reshape(1, count, width)


class ViT(nn.Module):
    def __init__(self, shape, classes, patch=4, width=12, heads=3, depth=2):
        super().__init__()
        count = (shape[1] // patch) * (shape[2] // patch)
        self.embed = nn.Conv2d(shape[0], width, patch, patch)
        self.token = nn.Parameter(torch.empty(1, 1, width))
        nn.init.trunc_normal_(self.token, std=0.02)
        self.register_buffer("position", sines(count + 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


def build(shape, classes):
    return ViT(shape, classes)
