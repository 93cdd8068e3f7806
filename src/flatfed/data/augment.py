"""Normalisation and augmentation of batches, on the device of the images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PADDING = 4


def draw(generator: np.random.Generator, steps: int, size: int, scheme: str) -> np.ndarray:
    """Return draws (steps, size, 4) uint8 for batches of ``size``: flip and crop (0 or 1), offsets dy and dx (0..8).

    ``crop_flip_batch``: one draw for each batch, which is always cropped.
    """
    if scheme == "crop_flip_batch":
        draws = _draw(generator, steps)
        draws[:, 1] = 1
        return np.broadcast_to(draws[:, None], (steps, size, 4))
    return _draw(generator, steps * size).reshape(steps, size, 4)


def _draw(generator: np.random.Generator, count: int) -> np.ndarray:
    draws = np.empty((count, 4), dtype=np.uint8)
    draws[:, :2] = generator.integers(0, 2, (count, 2))
    draws[:, 2:] = generator.integers(0, 2 * PADDING + 1, (count, 2))
    return draws


def batch(images: Tensor, mean: Tensor, std: Tensor, draws: Tensor | None, scheme: str, dtype: torch.dtype) -> Tensor:
    """Return ``images`` (*, C, H, W) uint8, augmented and normalised by ``mean`` and ``std`` (C,), both in 0..1.

    ``scheme``: none, or the official FedSMOO code's crop_flip_half: a horizontal flip with probability 1/2, then a crop
    of the image padded by 4 zeros with probability 1/2; or FL-SAM's crop_flip_batch, the same crop and flip for a whole
    batch. ``draws`` (*, 4): see :func:`draw`.
    """
    scale = (1 / (255 * std))[:, None, None]
    shift = (mean / std)[:, None, None]
    if draws is None or scheme == "none":
        return images.to(dtype).mul_(scale).sub_(shift)
    import torch

    height, width = images.shape[-2:]
    flip, crop, dy, dx = draws.to(torch.int64).unbind(-1)
    offset_y = torch.where(crop == 1, dy - PADDING, torch.zeros_like(dy))[..., None]
    offset_x = torch.where(crop == 1, dx - PADDING, torch.zeros_like(dx))[..., None]
    rows = torch.arange(height, device=images.device) + offset_y
    columns = torch.arange(width, device=images.device) + offset_x
    # Crop offsets count in the flipped image.
    columns = torch.where((flip == 1)[..., None], width - 1 - columns, columns)
    inside = ((rows >= 0) & (rows < height))[..., :, None] & ((columns >= 0) & (columns < width))[..., None, :]
    position = rows.clamp(0, height - 1)[..., :, None] * width + columns.clamp(0, width - 1)[..., None, :]
    position = position.flatten(-2)[..., None, :].expand(*images.shape[:-2], height * width)
    pixels = images.flatten(-2).gather(-1, position).unflatten(-1, (height, width))
    return pixels.to(dtype).mul_(scale).sub_(shift).mul_(inside[..., None, :, :])


def channels_last(images: Tensor) -> Tensor:
    """Return ``images`` (B, C, H, W) in channels-last order, in which convolutions are faster on a CPU."""
    import torch

    images = images.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = images.shape
    # torch treats one channel as channels-first unless the strides say otherwise.
    return images.as_strided(images.shape, (height * width, 1, width, 1)) if channels == 1 else images
