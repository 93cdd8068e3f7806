"""Layers that compute all rows at once, for a GPU.

Under vmap, torch computes the convolutions of rows with different kernels as one grouped convolution, which is slow in
cuDNN. The layers below have vmap rules of their own: a convolution is one batched product over all rows, and GroupNorm
with the shortcut and the ReLU behind it one operation. Without vmap they only support inference.

Shapes: R rows, B images of a row, H x W pixels, C channels, O output channels, H' x W' output positions, T taps of a
kernel. Images of several rows are channels-last: (R, B, H, W, C).
"""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, group_norm, pad

from flatfed.engine.speed import taps
from flatfed.models.resnet18_gn import Norm

Sides = tuple[int, int]
Border = tuple[int, ...]  # padding (left, right, top, bottom), negative to crop
MOST_TILES = 400  # three for each multiprocessor of an H100

SECOND = cache(lambda device: torch.cuda.Stream(device))
HELD: list[Tensor] = []

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's kernels also run on a CPU, slowly


@cache
def triton_kernels() -> ModuleType | None:
    """Return :mod:`flatfed.engine.speed.kernels`, None without Triton, which comes with torch's CUDA builds."""
    if importlib.util.find_spec("triton") is None:
        return None
    from flatfed.engine.speed import kernels

    return kernels


def kernels_for(tensor: Tensor) -> ModuleType | None:
    """Return the kernels if they support ``tensor``: on a GPU in float32 and bfloat16."""
    supported = tensor.is_cuda and tensor.dtype in (torch.float32, torch.bfloat16)
    return triton_kernels() if supported or INTERPRETED else None


@dataclass(frozen=True)
class Window:
    """How a convolution moves over images; ``corner``: padding (top, left), negative to crop."""

    kernel: Sides
    stride: Sides
    corner: Sides

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def output_size(self, size: Sides, border: Border) -> Sides:
        """Return (H', W') for images of ``size`` (H, W) with the padding ``border`` (left, right, top, bottom)."""
        left, right, top, bottom = border
        padded = size[0] + top + bottom, size[1] + left + right
        height, width = ((padded[i] - self.kernel[i]) // self.stride[i] + 1 for i in range(2))
        return height, width

    def settings(self) -> tuple[int, ...]:
        return (self.taps, self.kernel[1], *self.stride, *self.corner)


@cache
def pixels_of_entries(
    images: int, size: Sides, output_size: Sides, window: Window, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the pixel that each entry (output position, tap) reads, and the entries that read each pixel.

    Pixels (B H' W' T,): B H W for padding. Entries (B H W, most), filled up with the number of entries. They are copied
    from the host, so warm up before a CUDA graph records.
    """
    (height, width), (rows, columns) = size, window.kernel
    y = torch.arange(output_size[0])[:, None, None, None] * window.stride[0] + torch.arange(rows)[:, None]
    x = torch.arange(output_size[1])[:, None, None] * window.stride[1] + torch.arange(columns)
    y, x = y - window.corner[0], x - window.corner[1]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    image, count = torch.arange(images)[:, None, None, None, None], images * height * width
    pixels = torch.where(inside, (image * height + y) * width + x, count).flatten()

    sorted_pixels, sorted_entries = pixels.sort(stable=True)
    rank = torch.arange(len(pixels)) - torch.searchsorted(sorted_pixels, sorted_pixels)
    read = sorted_pixels < count
    entries = torch.full((count, int(rank.where(read, -1).max()) + 1), len(pixels))
    entries[sorted_pixels[read], rank[read]] = sorted_entries[read]
    return pixels.to(device), entries.to(device)


class Convolution(torch.autograd.Function):
    """Convolutions of R rows: images (R, B, H, W, C), kernels (R, O, h, w, C) -> (R, B, H', W', O)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, kernels: Tensor, window: Window, size: Sides) -> Tensor:
        kernels = kernels.flatten(2, 3)
        if not kernels[0].is_contiguous():
            kernels = kernels.contiguous()
        ctx.window, ctx.size, ctx.images_size = window, size, tuple(images.shape)
        ctx.implicit = without_columns(images, kernels, window, size)
        if ctx.implicit:
            ctx.save_for_backward(kernels, images)
            return kernels_for(images).implicit_product(images, kernels, window, size, backward=False)
        columns = columns_of(images, window, size)
        ctx.save_for_backward(kernels, columns)
        result = torch.bmm(columns, padded(kernels.flatten(2)).transpose(1, 2))
        return result.view(*images.shape[:2], *size, kernels.shape[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kernels, source), window, size = ctx.saved_tensors, ctx.window, ctx.size
        gradient = gradient.contiguous()
        by_position = gradient.flatten(1, 3)

        def of_kernels() -> Tensor:
            columns = columns_of(source, window, size) if ctx.implicit else source
            entries = kernels.shape[2] * kernels.shape[3]
            return product_over_positions(by_position, columns)[..., :entries].unflatten(2, (*window.kernel, -1))

        kernels_gradient = aside(of_kernels, gradient, source)
        images_gradient = None
        if ctx.needs_input_grad[0]:
            if ctx.implicit and window.stride == (1, 1):
                images_gradient = kernels_for(gradient).implicit_product(
                    gradient, kernels, window, ctx.images_size[2:4], backward=True
                )
            else:
                images_gradient = fold(torch.bmm(by_position, kernels.flatten(2)), window, size, ctx.images_size)
        return images_gradient, kernels_gradient, None, None


def without_columns(images: Tensor, kernels: Tensor, window: Window, size: Sides) -> bool:
    """Return whether a product without columns is faster: they would be larger than the ``kernels`` (R, O, T, C)."""
    outputs, taps, channels = kernels.shape[1:]
    implicit = taps > 1 and images.shape[1] * size[0] * size[1] > outputs
    accelerated = kernels_for(images)
    return implicit and accelerated is not None and accelerated.supports_implicit_product(channels, outputs)


def aside(work: Callable[[], Tensor], *inputs: Tensor) -> Tensor:
    """Return ``work()``, on a GPU from a second stream, which reads ``inputs``; :func:`join` waits for it.

    The gradients of the parameters are needed last, so they need not delay those of the images.
    """
    if not inputs[0].is_cuda:
        return work()
    stream = SECOND(inputs[0].device)
    stream.wait_stream(torch.cuda.current_stream(inputs[0].device))
    HELD.extend(inputs)  # until the join, nothing else may use their memory
    with torch.cuda.stream(stream):
        return work()


def join() -> None:
    """Let the current stream wait for the work of :func:`aside`."""
    if HELD:
        torch.cuda.current_stream(HELD[0].device).wait_stream(SECOND(HELD[0].device))
        HELD.clear()


def padded(matrices: Tensor) -> Tensor:
    """Return ``matrices`` (R, O, entries) with zeros up to a multiple of 8 entries, which start at 16 bytes."""
    missing = -matrices.shape[2] % 8
    return pad(matrices, (0, missing)) if missing else matrices


def columns_of(images: Tensor, window: Window, size: Sides) -> Tensor:
    """Return the pixels under the kernel at each output position, (R, B H' W', T C), with zeros as :func:`padded`."""
    rows, batch, *sides, channels = images.shape
    entries, positions = window.taps * channels, batch * size[0] * size[1]
    if one_tap_each(window, tuple(sides), size) and entries % 8 == 0:
        return images.view(rows, positions, entries)
    if accelerated := kernels_for(images):
        return accelerated.columns(images, window, size, entries + -entries % 8)
    pixels, _ = pixels_of_entries(batch, tuple(sides), size, window, images.device)
    padding = images.new_zeros(rows, 1, channels)
    columns = torch.cat([images.flatten(1, 3), padding], dim=1).index_select(1, pixels)
    return padded(columns.view(rows, positions, entries))


def fold(by_entry: Tensor, window: Window, size: Sides, images_size: tuple[int, ...]) -> Tensor:
    """Return the gradient of the images from that of their columns: for each pixel, the sum over its entries."""
    rows, batch, *sides, channels = images_size
    if one_tap_each(window, tuple(sides), size):
        return by_entry.view(images_size)
    if accelerated := kernels_for(by_entry):
        return accelerated.fold(by_entry, window, size, images_size)
    _, entries = pixels_of_entries(batch, tuple(sides), size, window, by_entry.device)
    by_entry = by_entry.view(rows, -1, channels)
    by_entry = torch.cat([by_entry, by_entry.new_zeros(rows, 1, channels)], dim=1)
    return by_entry.index_select(1, entries.flatten()).view(rows, *entries.shape, channels).sum(2).view(images_size)


def one_tap_each(window: Window, size: Sides, output_size: Sides) -> bool:
    """Return whether the columns are the images: a 1 x 1 kernel on each pixel, or one position on the whole image."""
    pointwise = window.taps == 1 and window.stride == (1, 1) and window.corner == (0, 0) and output_size == size
    return pointwise or (window.kernel == size and window.corner == (0, 0) and output_size == (1, 1))


def product_over_positions(gradient: Tensor, columns: Tensor) -> Tensor:
    """Return (R, O, entries) of ``gradient`` (R, positions, O) and ``columns`` (R, positions, entries).

    A small result has few tiles: then parts of the positions are multiplied apart and added, which fills the GPU.
    """
    rows, positions, outputs = gradient.shape
    entries = columns.shape[2]
    tiles = rows * -(-outputs // 64) * -(-entries // 128)
    candidates = (n for n in (16, 10, 8, 5, 4, 2) if positions % n == 0 and positions >= 256 * n)
    parts = next((n for n in candidates if tiles * n <= MOST_TILES), 1)
    if parts == 1 or not gradient.is_cuda:
        return torch.bmm(gradient.transpose(1, 2), columns)
    gradient, columns = (values.view(rows * parts, positions // parts, -1) for values in (gradient, columns))
    return torch.bmm(gradient.transpose(1, 2), columns).view(rows, parts, outputs, entries).sum(dim=1)


class BatchedNorm(torch.autograd.Function):
    """relu(GroupNorm(images) + shortcut) of R rows; ``shortcut`` may be None, ``rectify`` False omits the ReLU.

    ``images``, ``shortcut`` and result (R, B, H, W, C), contiguous; ``scale`` and ``shift`` (R, C).
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        scale: Tensor,
        shift: Tensor,
        shortcut: Tensor | None,
        groups: int,
        epsilon: float,
        rectify: bool,
    ) -> Tensor:
        ctx.groups, ctx.has_shortcut, ctx.rectify = groups, shortcut is not None, rectify
        # Only the ReLU's gradient needs the result: without it, the model may change the result in place.
        kernels = kernels_for(images)
        ctx.kernels = kernels if kernels and kernels.supports_norm(images, groups) else None
        if ctx.kernels:
            settings = shortcut, groups, epsilon, rectify
            result, mean, inverse_deviation = kernels.norm_forward(images, scale, shift, *settings)
            ctx.save_for_backward(images, result if rectify else images, scale, mean, inverse_deviation)
            return result
        grouped = BatchedNorm.by_group(images, groups)
        variance, mean = torch.var_mean(grouped, dim=(2, 4), correction=0, keepdim=True)
        inverse_deviation = (variance + epsilon).rsqrt()  # (R, B, 1, groups, 1)
        normalised = ((grouped - mean) * inverse_deviation).view(images.shape)
        result = normalised * scale[:, None, None, None] + shift[:, None, None, None]
        result = result if shortcut is None else result + shortcut
        result = result.relu() if rectify else result
        ctx.save_for_backward(normalised, result if rectify else None, scale, inverse_deviation)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradient.contiguous()
        if ctx.kernels:
            options = ctx.has_shortcut, ctx.rectify
            images_gradient, by_image, shortcut_gradient = ctx.kernels.norm_backward(
                gradient, *ctx.saved_tensors, *options
            )
            scale_gradient, shift_gradient = aside(lambda: by_image.sum(dim=2).to(gradient.dtype), by_image)
            return images_gradient, scale_gradient, shift_gradient, shortcut_gradient, None, None, None
        normalised, result, scale, inverse_deviation = ctx.saved_tensors
        if ctx.rectify:
            gradient = gradient * (result > 0)
        scale_gradient, shift_gradient = (gradient * normalised).sum(dim=(1, 2, 3)), gradient.sum(dim=(1, 2, 3))
        scaled = BatchedNorm.by_group(gradient * scale[:, None, None, None], ctx.groups)
        grouped = BatchedNorm.by_group(normalised, ctx.groups)
        mean, slope = (values.mean(dim=(2, 4), keepdim=True) for values in (scaled, scaled * grouped))
        images_gradient = ((scaled - mean - grouped * slope) * inverse_deviation).view(gradient.shape)
        return images_gradient, scale_gradient, shift_gradient, gradient if ctx.has_shortcut else None, None, None, None

    @staticmethod
    def by_group(images: Tensor, groups: int) -> Tensor:
        """Return a view (R, B, H W, groups, C / groups) of ``images`` (R, B, H, W, C)."""
        return images.flatten(2, 3).unflatten(-1, (groups, -1))


class RowConvolution(torch.autograd.Function):
    """The convolution of one row: images (B, C, H, W) and kernels (O, C, h, w) -> (B, O, H', W')."""

    @staticmethod
    def forward(images: Tensor, kernels: Tensor, window: Window, border: Border) -> Tensor:
        left, right, top, bottom = border
        if left == right >= 0 and top == bottom >= 0:
            return conv2d(images, kernels, None, window.stride, (top, left))
        return conv2d(pad(images, border), kernels, None, window.stride)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: only :meth:`vmap` supports gradients."""

    @staticmethod
    def vmap(
        info: Any, dims: tuple[int | None, ...], images: Tensor, kernels: Tensor, window: Window, border: Border
    ) -> tuple[Tensor, int]:
        images = channels_last(rows_first(images, dims[0], info.batch_size))
        kernels = rows_first(kernels, dims[1], info.batch_size).permute(0, 1, 3, 4, 2)
        size = window.output_size(tuple(images.shape[2:4]), border)
        return channels_first(Convolution.apply(images, kernels, window, size)), 0


class RowNorm(torch.autograd.Function):
    """:class:`BatchedNorm` of one row: images (B, C, H, W), scale and shift (C,)."""

    @staticmethod
    def forward(images: Tensor, scale: Tensor, shift: Tensor, shortcut: Tensor | None, *settings: Any) -> Tensor:
        groups, epsilon, rectify = settings
        if kernels_for(images):
            shortcut = shortcut if shortcut is None else channels_last(shortcut[None])
            result = BatchedNorm.apply(channels_last(images[None]), scale[None], shift[None], shortcut, *settings)
            return channels_first(result)[0]
        result = group_norm(images, groups, scale, shift, epsilon)
        result = result if shortcut is None else result + shortcut
        return result.relu() if rectify else result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: only :meth:`vmap` supports gradients."""

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        tensors = zip(inputs[:4], dims[:4], strict=True)
        images, scale, shift, shortcut = (
            tensor if tensor is None else rows_first(tensor, dim, info.batch_size) for tensor, dim in tensors
        )
        shortcut = shortcut if shortcut is None else channels_last(shortcut)
        return channels_first(BatchedNorm.apply(channels_last(images), scale, shift, shortcut, *inputs[4:])), 0


def rows_first(tensor: Tensor, dim: int | None, rows: int) -> Tensor:
    """Return ``tensor`` of a vmap rule with the rows in front; ``dim`` None: the rows share the tensor."""
    return tensor.expand(rows, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def channels_last(images: Tensor) -> Tensor:
    """Return ``images`` (R, B, C, H, W) as contiguous (R, B, H, W, C); no copy if their memory has this order."""
    return images.permute(0, 1, 3, 4, 2).contiguous()


def channels_first(images: Tensor) -> Tensor:
    """Return a view (R, B, C, H, W) of ``images`` (R, B, H, W, C)."""
    return images.permute(0, 1, 4, 2, 3)


class RowConv2d(nn.Conv2d):
    """``window`` and ``border``, padding (left, right, top, bottom), replace the layer's own settings."""

    window: Window
    border: Border

    def forward(self, images: Tensor) -> Tensor:
        result = RowConvolution.apply(images, self.weight, self.window, self.border)
        return result if self.bias is None else result + self.bias[:, None, None]


class RowGroupNorm(Norm):
    def forward(self, images: Tensor, shortcut: Tensor | None = None, rectify: bool = False) -> Tensor:
        if images.dim() != 4:
            return super().forward(images, shortcut, rectify)
        return RowNorm.apply(images, self.weight, self.bias, shortcut, self.num_groups, self.eps, rectify)


CONVERTED = {nn.Conv2d: RowConv2d, taps.Cropped: RowConv2d, nn.GroupNorm: RowGroupNorm, Norm: RowGroupNorm}


def convert(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` with the layers above; other layers, groups, dilation and padding by name stay."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
            if not plain or isinstance(module.padding, str) or type(module) not in CONVERTED:
                continue
            module.border = taps.border(module)
            module.window = Window(module.kernel_size, module.stride, (module.border[2], module.border[0]))
        if type(module) in CONVERTED and (not isinstance(module, nn.GroupNorm) or module.affine):
            module.__class__ = CONVERTED[type(module)]
    model.join = join
    return model
