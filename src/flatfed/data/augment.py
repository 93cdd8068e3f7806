"""Normalisation and augmentation of whole batches, on the device the images are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PADDING = 4


def draw(generator: np.random.Generator, count: int) -> np.ndarray:
    """Return the draws (count, 4) uint8 of ``crop_flip_half``: flip, crop (0 or 1 each), and offsets dy, dx in 0..8."""
    draws = np.empty((count, 4), dtype=np.uint8)
    draws[:, :2] = generator.integers(0, 2, (count, 2))
    draws[:, 2:] = generator.integers(0, 2 * PADDING + 1, (count, 2))
    return draws


def batch(images: Tensor, mean: Tensor, std: Tensor, draws: Tensor | None, scheme: str, dtype: torch.dtype) -> Tensor:
    """Return ``images`` (*, C, H, W) uint8 normalised by ``mean`` and ``std`` (C,), both in 0..1, in ``dtype``.

    ``scheme`` none, or crop_flip_half, that of the official FedSMOO code: on normalised images, a horizontal flip with
    probability 1/2, and with probability 1/2 a crop from the image padded by 4 pixels of 0, which is the mean colour.
    ``draws`` (*, 4) as :func:`draw` gives them.
    """
    scale = (1 / (255 * std))[:, None, None]
    shift = (mean / std)[:, None, None]
    if draws is None or scheme == "none":
        return images.to(dtype).mul_(scale).sub_(shift)
    return _crop_flip(images, draws, scale, shift, dtype)


def channels_last(images: Tensor) -> Tensor:
    """Return ``images`` (B, C, H, W) with channels last in memory: in this order convolutions run faster on a CPU.

    Images of one channel look the same in both orders, and torch takes them for channels first unless their strides say
    otherwise; the maxima and the second convolution of a CNN would then run in the slow order.
    """
    import torch

    images = images.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = images.shape
    return images.as_strided(images.shape, (height * width, 1, width, 1)) if channels == 1 else images


def _crop_flip(images: Tensor, draws: Tensor, scale: Tensor, shift: Tensor, dtype: torch.dtype) -> Tensor:
    """Gather every output pixel from where flip and crop put it; outside the image stands 0 after normalisation."""
    import torch

    height, width = images.shape[-2:]
    flip, crop, dy, dx = draws.to(torch.int64).unbind(-1)
    down = torch.where(crop == 1, dy - PADDING, torch.zeros_like(dy))[..., None]
    right = torch.where(crop == 1, dx - PADDING, torch.zeros_like(dx))[..., None]
    rows = torch.arange(height, device=images.device) + down
    columns = torch.arange(width, device=images.device) + right
    # the flip comes first: a cropped column is counted in the flipped image
    columns = torch.where((flip == 1)[..., None], width - 1 - columns, columns)
    inside = ((rows >= 0) & (rows < height))[..., :, None] & ((columns >= 0) & (columns < width))[..., None, :]
    position = rows.clamp(0, height - 1)[..., :, None] * width + columns.clamp(0, width - 1)[..., None, :]
    position = position.flatten(-2)[..., None, :].expand(*images.shape[:-2], height * width)
    picked = images.flatten(-2).gather(-1, position).unflatten(-1, (height, width))
    return picked.to(dtype).mul_(scale).sub_(shift).mul_(inside[..., None, :, :])
