"""Convolutions of all rows at once.

Under vmap, torch computes the convolutions of rows with different kernels as one grouped convolution, which is slow in
cuDNN. :class:`RowConv2d` has a vmap rule of its own: one batched product over all rows. Without vmap it only supports
inference.

Shapes: R rows, B images of a row, H x W pixels, C channels, O output channels, H' x W' output positions, T taps of a
kernel. Images of several rows are channels-last: (R, B, H, W, C).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from flatfed.engine.second_stream import on_second_stream
from flatfed.engine.speed.acceleration import channels_first, channels_last, kernels_for, rows_first
from flatfed.engine.speed.taps import Sides, Window

MOST_TILES = 400  # three for each multiprocessor of an H100

accelerated_for = partial(kernels_for, module="convolution_kernels")


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
    is_read = sorted_pixels < count
    entries = torch.full((count, int(rank.where(is_read, -1).max()) + 1), len(pixels))
    entries[sorted_pixels[is_read], rank[is_read]] = sorted_entries[is_read]
    return pixels.to(device), entries.to(device)


class Convolution(torch.autograd.Function):
    """Convolutions of R rows: images (R, B, H, W, C), kernels (R, O, h, w, C) -> (R, B, H', W', O)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, kernels: Tensor, window: Window, size: Sides) -> Tensor:
        ctx.parameter, kernels = kernels, kernels.flatten(2, 3)
        if not kernels[0].is_contiguous():
            kernels = kernels.contiguous()
        ctx.window, ctx.size, ctx.images_size = window, size, tuple(images.shape)
        ctx.implicit = without_columns(images, kernels, size)
        if ctx.implicit:
            ctx.save_for_backward(kernels, images)
            return accelerated_for(images).implicit_product(images, kernels, window, size, backward=False)
        columns = columns_of(images, window, size)
        ctx.save_for_backward(kernels, columns)
        result = images.new_empty(*images.shape[:2], *size, kernels.shape[1])  # no view: models may change it in place
        torch.bmm(columns, padded(kernels.flatten(2)).transpose(1, 2), out=result.flatten(1, 3))
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kernels, source), window, size = ctx.saved_tensors, ctx.window, ctx.size
        gradient = gradient.contiguous()
        by_position = gradient.flatten(1, 3)

        def of_kernels() -> Tensor:
            columns = columns_of(source, window, size) if ctx.implicit else source
            entries = kernels.shape[2] * kernels.shape[3]
            return product_over_positions(by_position, columns)[..., :entries].unflatten(2, (*window.kernel, -1))

        kernels_gradient = on_second_stream(of_kernels, ctx.parameter, gradient, source)
        images_gradient = None
        if ctx.needs_input_grad[0]:
            if ctx.implicit and window.stride == (1, 1):
                images_gradient = accelerated_for(gradient).implicit_product(
                    gradient, kernels, window, ctx.images_size[2:4], backward=True
                )
            else:
                images_gradient = fold(torch.bmm(by_position, kernels.flatten(2)), window, size, ctx.images_size)
        return images_gradient, kernels_gradient, None, None


def without_columns(images: Tensor, kernels: Tensor, size: Sides) -> bool:
    """Return whether a product without columns is faster: they would be larger than the ``kernels`` (R, O, T, C)."""
    outputs, taps, channels = kernels.shape[1:]
    implicit = taps > 1 and images.shape[1] * size[0] * size[1] > outputs
    accelerated = accelerated_for(images)
    return implicit and accelerated is not None and accelerated.supports_implicit_product(channels, outputs)


def padded(matrices: Tensor) -> Tensor:
    """Return ``matrices`` (R, O, entries) with zeros up to a multiple of 8 entries, which start at 16 bytes."""
    missing = -matrices.shape[2] % 8
    return pad(matrices, (0, missing)) if missing else matrices


def columns_of(images: Tensor, window: Window, size: Sides) -> Tensor:
    """Return the pixels under the kernel at each output position, (R, B H' W', T C), with zeros as :func:`padded`."""
    rows, batch, *sides, channels = images.shape
    entries, positions = window.taps * channels, batch * size[0] * size[1]
    if columns_are_images(window, tuple(sides), size) and entries % 8 == 0:
        return images.view(rows, positions, entries)
    if accelerated := accelerated_for(images):
        return accelerated.columns(images, window, size, entries + -entries % 8)
    pixels, _ = pixels_of_entries(batch, tuple(sides), size, window, images.device)
    padding = images.new_zeros(rows, 1, channels)
    columns = torch.cat([images.flatten(1, 3), padding], dim=1).index_select(1, pixels)
    return padded(columns.view(rows, positions, entries))


def fold(by_entry: Tensor, window: Window, size: Sides, images_size: tuple[int, ...]) -> Tensor:
    """Return the gradient of the images from that of their columns: for each pixel, the sum over its entries."""
    rows, batch, *sides, channels = images_size
    if columns_are_images(window, tuple(sides), size):
        return by_entry.view(images_size)
    if accelerated := accelerated_for(by_entry):
        return accelerated.fold(by_entry, window, size, images_size)
    _, entries = pixels_of_entries(batch, tuple(sides), size, window, by_entry.device)
    by_entry = by_entry.view(rows, -1, channels)
    by_entry = torch.cat([by_entry, by_entry.new_zeros(rows, 1, channels)], dim=1)
    return by_entry.index_select(1, entries.flatten()).view(rows, *entries.shape, channels).sum(2).view(images_size)


def columns_are_images(window: Window, size: Sides, output_size: Sides) -> bool:
    """Return whether the columns are the images: a 1 x 1 kernel on each pixel, or one position on the whole image."""
    pointwise = window.taps == 1 and window.stride == (1, 1) and window.corner == (0, 0) and output_size == size
    return pointwise or (window.kernel == size and window.corner == (0, 0) and output_size == (1, 1))


def product_over_positions(gradient: Tensor, columns: Tensor) -> Tensor:
    """Return (R, O, entries) of ``gradient`` (R, positions, O) and ``columns`` (R, positions, entries).

    A small result has few tiles. Then parts of the positions are multiplied separately and added, which fills the GPU.
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


class RowConvolution(torch.autograd.Function):
    """The convolution of one row: images (B, C, H, W) and kernels (O, C, h, w) -> (B, O, H', W')."""

    @staticmethod
    def forward(images: Tensor, kernels: Tensor, window: Window) -> Tensor:
        return window.convolve(images, kernels)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: only :meth:`vmap` supports gradients."""

    @staticmethod
    def vmap(
        info: Any, dims: tuple[int | None, ...], images: Tensor, kernels: Tensor, window: Window
    ) -> tuple[Tensor, int]:
        images = channels_last(rows_first(images, dims[0], info.batch_size))
        kernels = rows_first(kernels, dims[1], info.batch_size).permute(0, 1, 3, 4, 2)
        size = window.output_size(tuple(images.shape[2:4]))
        return channels_first(Convolution.apply(images, kernels, window, size)), 0


class RowConv2d(nn.Conv2d):
    """``window`` replaces the layer's own settings."""

    window: Window

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() == 3:
            return self(images[None])[0]
        result = RowConvolution.apply(images, self.weight, self.window)
        return result if self.bias is None else result + self.bias[:, None, None]
