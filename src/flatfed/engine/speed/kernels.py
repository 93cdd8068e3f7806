"""Triton kernels of the layers in ``row_layers.py``: convolutions and GroupNorm of all rows at once.

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
    from flatfed.engine.speed.row_layers import Window

Sides = tuple[int, int]

NORM_ELEMENTS = 1 << 14  # of the largest image that a program of GroupNorm holds in registers


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
    place = (row * positions + position)[:, None] * entries + entry[None, :]
    tl.store(target + place, values, mask=(position < positions)[:, None] & (entry < entries)[None, :])


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
        read = (corner_y >= 0) & (corner_y % stride_y == 0) & (output_y < output_height)
        read &= (corner_x >= 0) & (corner_x % stride_x == 0) & (output_x < output_width)
        position = (image * output_height + output_y) * output_width + output_x
        place = (position * taps + tap)[:, None] * channels + channel[None, :]
        total += tl.load(source + place, mask=in_target & read[:, None], other=0.0).to(tl.float32)
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
            place = channel[:, None] * (taps * outputs) + tap * outputs + output[None, :]
        else:
            source_y, source_x = y + tap // kernel_width, x + tap % kernel_width
            place = output[None, :] * (taps * channels) + tap * channels + channel[:, None]
        inside = (source_y >= 0) & (source_y < source_height) & (source_x >= 0) & (source_x < source_width)
        inside &= pixel < pixels
        source_pixel = (image * source_height + source_y) * source_width + source_x
        values = tl.load(source + source_pixel[:, None] * channels + channel[None, :], mask=inside[:, None], other=0.0)
        weights = tl.load(kernels + place, mask=(output < outputs)[None, :], other=0.0)
        total = tl.dot(values, weights, total, input_precision=PRECISION)
    place = (row * pixels + pixel)[:, None] * outputs + output[None, :]
    tl.store(target + place, total, mask=(pixel < pixels)[:, None] & (output < outputs)[None, :])


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
    plain = _by_channel(_group_means(shift_gradient * factor, pixels, CHANNELS, GROUPS), CHANNELS, GROUPS)
    product = _by_channel(_group_means(scale_gradient * factor, pixels, CHANNELS, GROUPS), CHANNELS, GROUPS)
    output = (slope * factor[None, :] - plain - normalised * product) * inverse_deviation
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


@triton.jit
def _descend(w, d, factors, lr, shrink, size, row_w, row_d, TILE: tl.constexpr):
    """A tile of a row: w <- w - lr (factor d + shrink w)."""
    row = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = place < size
    values = tl.load(w + row * row_w + place, mask=inside)
    step = tl.load(d + row * row_d + place, mask=inside) * tl.load(factors + row) + shrink * values
    tl.store(w + row * row_w + place, values - tl.load(lr) * step, mask=inside)


def descend(w: Tensor, d: Tensor, factors: Tensor, lr: Tensor, shrink: float) -> None:
    """Move the rows ``w`` in place: w <- w - lr (factor d + shrink w); ``factors`` (rows,), ``lr`` 0-d."""
    rows, size = w.shape
    grid = (triton.cdiv(size, 2048), rows)
    _descend[grid](w, d, factors, lr, shrink, size, w.stride(0), d.stride(0), TILE=2048)
