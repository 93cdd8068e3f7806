"""Triton kernels of GroupNorm, the shortcut and the ReLU of all rows at once.

A program adds the values of one image in a fixed order, so a GPU returns the same bytes again. Sums are float32.

Shapes: R rows, B images of a row, H x W pixels, C channels. Images are channels-last (R, B, H, W, C), contiguous.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NORM_ELEMENTS = 1 << 14  # of the largest image that a program holds in registers


@triton.jit
def _by_channel(by_group, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):
    """Return values (GROUPS,) as (1, CHANNELS): each group's value for each of its channels."""
    values = tl.broadcast_to(by_group[:, None], (GROUPS, CHANNELS // GROUPS))
    return tl.reshape(values, (1, CHANNELS))


@triton.jit
def _group_means(by_channel_sums, pixels, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):
    """Return the means (GROUPS,) over pixels and channels of sums (CHANNELS,) over the pixels."""
    grouped = tl.reshape(by_channel_sums, (GROUPS, CHANNELS // GROUPS))
    return tl.sum(grouped, 1) / (pixels * (CHANNELS // GROUPS))


@triton.jit
def _norm_forward(
    images,
    shortcut,
    scale,
    shift,
    result,
    means,
    inverse_deviations,
    batch,
    pixels,
    scale_row,  # from a row's scale to the next
    shift_row,
    epsilon,
    TILE_PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    HAS_SHORTCUT: tl.constexpr,
    RECTIFY: tl.constexpr,
):
    """One program per image: a tile (TILE_PIXELS, CHANNELS)."""
    image = tl.program_id(0).to(tl.int64)
    row = image // batch
    pixel, channel = tl.arange(0, TILE_PIXELS)[:, None], tl.arange(0, CHANNELS)[None, :]
    inside = pixel < pixels
    offsets = image * pixels * CHANNELS + pixel * CHANNELS + channel

    values = tl.load(images + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = _group_means(tl.sum(values, 0), pixels, CHANNELS, GROUPS)
    centred = tl.where(inside, values - _by_channel(mean, CHANNELS, GROUPS), 0.0)
    variance = _group_means(tl.sum(centred * centred, 0), pixels, CHANNELS, GROUPS)
    inverse_deviation = 1 / tl.sqrt(variance + epsilon)

    normalised = centred * _by_channel(inverse_deviation, CHANNELS, GROUPS)
    output = normalised * tl.load(scale + row * scale_row + channel).to(tl.float32)
    output += tl.load(shift + row * shift_row + channel).to(tl.float32)
    if HAS_SHORTCUT:
        output += tl.load(shortcut + offsets, mask=inside, other=0.0).to(tl.float32)
    if RECTIFY:
        output = tl.maximum(output, 0.0)
    tl.store(result + offsets, output, mask=inside)
    groups = image * GROUPS + tl.arange(0, GROUPS)
    tl.store(means + groups, mean)
    tl.store(inverse_deviations + groups, inverse_deviation)


@triton.jit
def _norm_backward(
    gradient,
    images,
    result,
    scale,
    means,
    inverse_deviations,
    images_gradient,
    shortcut_gradient,
    scale_gradients,
    shift_gradients,
    batch,
    pixels,
    scale_row,
    TILE_PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    HAS_SHORTCUT: tl.constexpr,
    RECTIFY: tl.constexpr,
):
    """One program per image. ``scale_gradients`` and ``shift_gradients`` (images, CHANNELS) are those of each image."""
    image = tl.program_id(0).to(tl.int64)
    pixel, channel = tl.arange(0, TILE_PIXELS)[:, None], tl.arange(0, CHANNELS)
    inside = pixel < pixels
    offsets = image * pixels * CHANNELS + pixel * CHANNELS + channel[None, :]
    groups = image * GROUPS + tl.arange(0, GROUPS)
    mean = _by_channel(tl.load(means + groups), CHANNELS, GROUPS)
    inverse_deviation = _by_channel(tl.load(inverse_deviations + groups), CHANNELS, GROUPS)

    slope = tl.load(gradient + offsets, mask=inside, other=0.0).to(tl.float32)
    if RECTIFY:
        slope = tl.where(tl.load(result + offsets, mask=inside, other=0.0) > 0, slope, 0.0)
    if HAS_SHORTCUT:
        tl.store(shortcut_gradient + offsets, slope, mask=inside)
    centred = tl.load(images + offsets, mask=inside, other=0.0).to(tl.float32) - mean
    normalised = tl.where(inside, centred * inverse_deviation, 0.0)

    scale_gradient, shift_gradient = tl.sum(slope * normalised, 0), tl.sum(slope, 0)
    tl.store(scale_gradients + image * CHANNELS + channel, scale_gradient)
    tl.store(shift_gradients + image * CHANNELS + channel, shift_gradient)

    factor = tl.load(scale + image // batch * scale_row + channel).to(tl.float32)
    # Means of the gradient of the normalised values, and of its product with them.
    mean_slope = _by_channel(_group_means(shift_gradient * factor, pixels, CHANNELS, GROUPS), CHANNELS, GROUPS)
    product = _by_channel(_group_means(scale_gradient * factor, pixels, CHANNELS, GROUPS), CHANNELS, GROUPS)
    output = (slope * factor[None, :] - mean_slope - normalised * product) * inverse_deviation
    tl.store(images_gradient + offsets, output, mask=inside)


def supports_norm(images: Tensor, groups: int) -> bool:
    """Return whether the norm's kernels support ``images`` (R, B, H, W, C): powers of two, and a tile in registers."""
    pixels, channels = images.shape[2] * images.shape[3], images.shape[4]
    powers = not (channels & (channels - 1) or groups & (groups - 1))
    return powers and triton.next_power_of_2(pixels) * channels <= NORM_ELEMENTS


def _norm_settings(pixels: int, channels: int, groups: int) -> dict[str, int]:
    tile = triton.next_power_of_2(pixels)
    warps = min(max(tile * channels // 1024, 2), 16)
    return {"TILE_PIXELS": tile, "CHANNELS": channels, "GROUPS": groups, "num_warps": warps}


def norm_forward(
    images: Tensor,
    scale: Tensor,
    shift: Tensor,
    shortcut: Tensor | None,
    groups: int,
    epsilon: float,
    rectify: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return relu(GroupNorm(images) + shortcut), and means and inverse deviations (R, B, groups).

    ``images``, ``shortcut`` and result (R, B, H, W, C), contiguous; ``scale`` and ``shift`` (R, C), strided by row.
    """
    rows, batch, height, width, channels = images.shape
    result = torch.empty_like(images)
    means = images.new_empty(rows, batch, groups, dtype=torch.float32)
    inverse_deviations = torch.empty_like(means)
    _norm_forward[(rows * batch,)](
        images,
        images if shortcut is None else shortcut,
        scale,
        shift,
        result,
        means,
        inverse_deviations,
        batch,
        height * width,
        scale.stride(0),
        shift.stride(0),
        epsilon,
        HAS_SHORTCUT=shortcut is not None,
        RECTIFY=rectify,
        **_norm_settings(height * width, channels, groups),
    )
    return result, means, inverse_deviations


def norm_backward(
    gradient: Tensor,
    images: Tensor,
    result: Tensor,
    scale: Tensor,
    means: Tensor,
    inverse_deviations: Tensor,
    has_shortcut: bool,
    rectify: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of images, each image's of scale and shift (2, R, B, C), and of the shortcut."""
    rows, batch, height, width, channels = images.shape
    images_gradient = torch.empty_like(images)
    shortcut_gradient = torch.empty_like(images) if has_shortcut else None
    by_image = images.new_empty(2, rows, batch, channels, dtype=torch.float32)
    _norm_backward[(rows * batch,)](
        gradient,
        images,
        result,
        scale,
        means,
        inverse_deviations,
        images_gradient,
        images_gradient if shortcut_gradient is None else shortcut_gradient,
        by_image[0],
        by_image[1],
        batch,
        height * width,
        scale.stride(0),
        HAS_SHORTCUT=has_shortcut,
        RECTIFY=rectify,
        **_norm_settings(height * width, channels, means.shape[-1]),
    )
    return images_gradient, by_image, shortcut_gradient
