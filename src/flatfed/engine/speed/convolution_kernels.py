"""Triton kernels of convolutions of all rows at once.

No two programs write one element, and each adds in a fixed order, so a GPU returns the same bytes again. Sums are
float32. Products of float32 use TF32 if torch does.

Shapes: R rows, B images of a row, H x W pixels, C channels, O output channels, H' x W' output positions, T taps of a
kernel. Images are channels-last (R, B, H, W, C), kernels (R, O, T, C). An entry of the columns is a pair (tap,
channel).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from flatfed.engine.speed.taps import Sides, Window


@triton.jit
def _columns(
    source,
    target,
    images,
    height,
    width,
    output_height,
    output_width,
    channels,
    entries,  # a row of the target, with padding
    taps,
    kernel_width,
    stride_y,
    stride_x,
    top,
    left,
    TILE_POSITIONS: tl.constexpr,
    TILE_ENTRIES: tl.constexpr,
):
    """A tile (TILE_POSITIONS, TILE_ENTRIES) of a row's columns: the pixels under the kernel at each output position."""
    row = tl.program_id(2).to(tl.int64)
    positions = images * output_height * output_width
    position = tl.program_id(0) * TILE_POSITIONS + tl.arange(0, TILE_POSITIONS)
    entry = tl.program_id(1) * TILE_ENTRIES + tl.arange(0, TILE_ENTRIES)
    tap, channel = entry // channels, entry % channels
    image = position // (output_height * output_width)
    y = (position // output_width % output_height * stride_y - top)[:, None] + (tap // kernel_width)[None, :]
    x = (position % output_width * stride_x - left)[:, None] + (tap % kernel_width)[None, :]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    inside &= (position < positions)[:, None] & (tap < taps)[None, :]
    pixel = (image * height)[:, None] * width + y * width + x
    source += row * images * height * width * channels
    values = tl.load(source + pixel * channels + channel[None, :], mask=inside, other=0.0)
    offset = (row * positions + position)[:, None] * entries + entry[None, :]
    tl.store(target + offset, values, mask=(position < positions)[:, None] & (entry < entries)[None, :])


@triton.jit
def _fold(
    source,  # (R, B H' W', T, C)
    target,
    images,
    height,
    width,
    output_height,
    output_width,
    channels,
    taps,
    kernel_width,
    stride_y,
    stride_x,
    top,
    left,
    TILE_PIXELS: tl.constexpr,
    TILE_CHANNELS: tl.constexpr,
):
    """A tile (TILE_PIXELS, TILE_CHANNELS): the sum of each pixel over the output positions and taps that read it."""
    row = tl.program_id(2).to(tl.int64)
    pixels = images * height * width
    pixel = tl.program_id(0) * TILE_PIXELS + tl.arange(0, TILE_PIXELS)
    channel = tl.program_id(1) * TILE_CHANNELS + tl.arange(0, TILE_CHANNELS)
    image, y, x = pixel // (height * width), pixel // width % height + top, pixel % width + left
    in_target = (pixel < pixels)[:, None] & (channel < channels)[None, :]
    source += row * images * output_height * output_width * taps * channels
    total = tl.zeros((TILE_PIXELS, TILE_CHANNELS), tl.float32)
    for tap in range(0, taps):
        # Top left corner of the kernel that reads the pixel with this tap, in the padded image.
        corner_y, corner_x = y - tap // kernel_width, x - tap % kernel_width
        output_y, output_x = corner_y // stride_y, corner_x // stride_x
        is_read = (corner_y >= 0) & (corner_y % stride_y == 0) & (output_y < output_height)
        is_read &= (corner_x >= 0) & (corner_x % stride_x == 0) & (output_x < output_width)
        position = (image * output_height + output_y) * output_width + output_x
        offset = (position * taps + tap)[:, None] * channels + channel[None, :]
        total += tl.load(source + offset, mask=in_target & is_read[:, None], other=0.0).to(tl.float32)
    tl.store(target + (row * pixels + pixel)[:, None] * channels + channel[None, :], total, mask=in_target)


@triton.jit
def _implicit_product(
    source,
    kernels,
    target,
    kernel_row,  # from a row's kernel to the next
    images,
    source_height,
    source_width,
    target_height,
    target_width,
    channels,  # of the source, a multiple of STEP
    outputs,  # channels of the target
    taps,
    kernel_width,
    stride_y,
    stride_x,
    top,
    left,
    BACKWARD: tl.constexpr,
    TILE_PIXELS: tl.constexpr,
    TILE_OUTPUTS: tl.constexpr,
    STEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile (TILE_PIXELS, TILE_OUTPUTS) of a row's target: the product of columns and kernels, without the columns.

    Forward, the source is the layer's images. BACKWARD, with strides of 1, the source is the gradient of its outputs,
    and the target that of its images.
    """
    row = tl.program_id(1).to(tl.int64)
    tiles = tl.cdiv(outputs, TILE_OUTPUTS)
    pixels = images * target_height * target_width
    pixel = tl.program_id(0) // tiles * TILE_PIXELS + tl.arange(0, TILE_PIXELS)
    output = tl.program_id(0) % tiles * TILE_OUTPUTS + tl.arange(0, TILE_OUTPUTS)
    source += row * images * source_height * source_width * channels
    kernels += row * kernel_row
    image = pixel // (target_height * target_width)
    y, x = pixel // target_width % target_height, pixel % target_width
    if BACKWARD:
        y, x = y + top, x + left
    else:
        y, x = y * stride_y - top, x * stride_x - left
    total = tl.zeros((TILE_PIXELS, TILE_OUTPUTS), tl.float32)
    steps = channels // STEP
    for step in range(0, taps * steps):
        tap, channel = step // steps, step % steps * STEP + tl.arange(0, STEP)
        if BACKWARD:
            source_y, source_x = y - tap // kernel_width, x - tap % kernel_width
            offset = channel[:, None] * (taps * outputs) + tap * outputs + output[None, :]
        else:
            source_y, source_x = y + tap // kernel_width, x + tap % kernel_width
            offset = output[None, :] * (taps * channels) + tap * channels + channel[:, None]
        inside = (source_y >= 0) & (source_y < source_height) & (source_x >= 0) & (source_x < source_width)
        inside &= pixel < pixels
        source_pixel = (image * source_height + source_y) * source_width + source_x
        values = tl.load(source + source_pixel[:, None] * channels + channel[None, :], mask=inside[:, None], other=0.0)
        weights = tl.load(kernels + offset, mask=(output < outputs)[None, :], other=0.0)
        total = tl.dot(values, weights, total, input_precision=PRECISION)
    offset = (row * pixels + pixel)[:, None] * outputs + output[None, :]
    tl.store(target + offset, total, mask=(pixel < pixels)[:, None] & (output < outputs)[None, :])


def columns(source: Tensor, window: Window, size: Sides, entries: int) -> Tensor:
    """Return the columns (R, B H' W', entries) of images ``source`` (R, B, H, W, C), with zeros behind T C entries.

    ``size``: (H', W').
    """
    rows, images, height, width, channels = source.shape
    target = source.new_empty(rows, images * size[0] * size[1], entries)
    tile_positions, tile_entries = 32, 64
    grid = (triton.cdiv(target.shape[1], tile_positions), triton.cdiv(entries, tile_entries), rows)
    sizes = images, height, width, *size, channels, entries
    tiles = {"TILE_POSITIONS": tile_positions, "TILE_ENTRIES": tile_entries}
    _columns[grid](source, target, *sizes, *window.settings(), **tiles)
    return target


def fold(source: Tensor, window: Window, size: Sides, images_size: tuple[int, ...]) -> Tensor:
    """Return the gradient of images (R, B, H, W, C) from that of their columns ``source`` (R, B H' W', T C)."""
    rows, images, height, width, channels = images_size
    target = source.new_empty(images_size)
    tile_channels = min(triton.next_power_of_2(channels), 64)
    tile_pixels = 2048 // tile_channels
    grid = (triton.cdiv(images * height * width, tile_pixels), triton.cdiv(channels, tile_channels), rows)
    tiles = {"TILE_PIXELS": tile_pixels, "TILE_CHANNELS": tile_channels}
    _fold[grid](source, target, images, height, width, *size, channels, *window.settings(), **tiles)
    return target


def supports_implicit_product(channels: int, outputs: int) -> bool:
    return channels % 16 == 0 and outputs % 16 == 0


def implicit_product(source: Tensor, kernels: Tensor, window: Window, size: Sides, backward: bool) -> Tensor:
    """Return the outputs (R, B, *size, O) of images ``source`` (R, B, H, W, C) and ``kernels`` (R, O, T, C).

    ``backward``: ``source`` is the gradient of the outputs (R, B, H', W', O); return that of the images (R, B, *size,
    C).
    """
    rows, images, height, width, channels = source.shape
    outputs = kernels.shape[3 if backward else 1]
    target = source.new_empty(rows, images, *size, outputs)
    pixels = images * size[0] * size[1]
    tile_pixels, tile_outputs = 128 if backward else 64, 64 if outputs >= 64 else triton.next_power_of_2(outputs)
    tensor_floats = source.dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"
    _implicit_product[triton.cdiv(pixels, tile_pixels) * triton.cdiv(outputs, tile_outputs), rows](
        source,
        kernels,
        target,
        kernels.stride(0),
        images,
        height,
        width,
        *size,
        channels,
        outputs,
        *window.settings(),
        BACKWARD=backward,
        TILE_PIXELS=tile_pixels,
        TILE_OUTPUTS=tile_outputs,
        STEP=32 if channels % 32 == 0 else 16,
        PRECISION="tf32" if tensor_floats else "ieee",
        num_warps=4,
        num_stages=3,
    )
    return target
