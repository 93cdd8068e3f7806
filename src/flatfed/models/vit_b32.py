"""ViT-B/32 (Dosovitskiy et al. 2021) with the tensors of torchvision's ``vit_b_32``, for images of any size.

FedLESAM's model for OfficeHome and DomainNet: 87,505,217 parameters for 65 classes at 224 x 224.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from flatfed.errors import ConfigError

EPS = 1e-6  # of every LayerNorm


class Attention(nn.Module):
    """Self-attention with the tensors of nn.MultiheadAttention, all derivatives, and vmap on every device."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        projected = linear(x, self.in_proj_weight, self.in_proj_bias).unflatten(-1, (3, self.heads, -1))
        query, key, value = projected.transpose(1, 3).unbind(2)
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        return self.out_proj((scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(-2))


class EncoderBlock(nn.Module):
    """LayerNorm, attention, shortcut; LayerNorm, two dense layers with GELU between them, shortcut."""

    def __init__(self, width: int, heads: int, mlp: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, EPS)
        self.self_attention = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, EPS)
        self.mlp = nn.ModuleDict({"0": nn.Linear(width, mlp), "3": nn.Linear(mlp, width)})

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp["3"](gelu(self.mlp["0"](self.ln_2(x))))


class Encoder(nn.Module):
    """Position embedding, ``depth`` blocks, LayerNorm."""

    def __init__(self, tokens: int, depth: int, width: int, heads: int, mlp: int):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width))
        self.layers = nn.ModuleDict({f"encoder_layer_{k}": EncoderBlock(width, heads, mlp) for k in range(depth)})
        self.ln = nn.LayerNorm(width, EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Return the encoded tokens of ``x`` (batch, tokens, width)."""
        x = x + self.pos_embedding
        for block in self.layers.values():
            x = block(x)
        return self.ln(x)


class ViT(nn.Module):
    """A class token and patches as tokens, the encoder, a dense layer on the class token; no dropout."""

    head = "heads.head"

    def __init__(self, shape: tuple[int, ...], classes: int, patch: int, depth: int, width: int, heads: int, mlp: int):
        super().__init__()
        if width % heads:
            raise ConfigError(f"model: vit_b32: heads: {heads} must divide width: {width}")
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.conv_proj = nn.Conv2d(shape[0], width, patch, patch)
        self.encoder = Encoder(1 + (shape[1] // patch) * (shape[2] // patch), depth, width, heads, mlp)
        self.heads = nn.ModuleDict({"head": nn.Linear(width, classes)})

    def forward(self, x: Tensor, masks: list[Tensor] | None = None) -> Tensor:
        """Return logits (batch, classes) of images (batch, C, H, W)."""
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], dim=1)
        return self.heads["head"](self.encoder(tokens)[:, 0])

    def initial(self, name: str, value: Tensor, generator: torch.Generator) -> bool:
        """Draw by torchvision's rules, but the last layer, which it sets to zero, by torch's rule."""
        if name == "encoder.pos_embedding":
            value.normal_(0.0, 0.02, generator=generator)
        elif name == "conv_proj.weight":
            # torchvision truncates at 2, over 100 deviations from 0; trunc_normal_'s draws depend on torch's version.
            value.normal_(0.0, value[0].numel() ** -0.5, generator=generator)
        elif name.endswith("in_proj_weight") or (".mlp." in name and name.endswith("weight")):
            nn.init.xavier_uniform_(value, generator=generator)
        elif ".mlp." in name:
            value.normal_(0.0, 1e-6, generator=generator)
        elif name in ("class_token", "conv_proj.bias") or name.endswith(("in_proj_bias", "out_proj.bias")):
            value.zero_()
        else:
            return False
        return True


build = ViT
