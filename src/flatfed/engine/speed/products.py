"""Convolutions of very small images as matrix products.

Libraries' convolutions are made for large images. With the 7x7 stem, ResNet-18's last stages see images of 2 x 2 pixels
and of one, on which a 3 x 3 kernel meets padding more often than pixels: the same sums as one product of the images,
written as rows, with a matrix of the kernel's taps are fewer operations, and run at a product's speed. Parameters keep
their names, shapes and places.
"""

from __future__ import annotations

import copy
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from flatfed.engine.speed import taps

POINTS, DENSE = 64, 4  # pixels of the largest images on which a product was measured to be faster, for a batch of 50


class Product(nn.Conv2d):
    """A convolution ``layer`` on images of ``size`` (H, W), computed as a product.

    The two layers share parameters and hooks: tied weights, and lists of layers that the model keeps, stay valid.
    """

    def __init__(self, layer: nn.Conv2d, size: tuple[int, int]):
        vars(self).update(vars(layer))


class Points(Product):
    """One tap: every stride-th pixel times a matrix."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        pixels = images[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        result = linear(pixels.flatten(0, 2), self.weight.flatten(1), self.bias)
        return result.reshape(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class Once(Product):
    """A kernel of the size of the images, at one position."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        return linear(images.flatten(1), self.weight.flatten(1), self.bias)[:, :, None, None]


class Dense(Product):
    """One matrix for each pixel of the result.

    ``meets`` has for each pixel of the result (of size ``outputs``), row by row, the tap that lies on each pixel of the
    image, None for none.
    """

    def __init__(self, layer: nn.Conv2d, size: tuple[int, int]):
        super().__init__(layer, size)
        (height, width), (left, _, top, _) = size, taps.border(layer)
        self.outputs = taps.outputs(layer, size)

        def tap(row: int, column: int, y: int, x: int) -> int | None:
            down, right = y + top - row * layer.stride[0], x + left - column * layer.stride[1]
            inside = 0 <= down < layer.kernel_size[0] and 0 <= right < layer.kernel_size[1]
            return down * layer.kernel_size[1] + right if inside else None

        self.meets = [
            [tap(row, column, y, x) for y, x in product(range(height), range(width))]
            for row, column in product(*map(range, self.outputs))
        ]

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        # A tap's weights next to each other, once: matrices are then copies of whole blocks, and their gradients sums
        # of such. One matrix for each pixel, since all at once would copy the kernels of rows that train together.
        kernels = self.weight.flatten(2).permute(2, 0, 1).contiguous().unbind()
        nothing = torch.zeros_like(kernels[0])
        pixels = images.permute(0, 2, 3, 1).flatten(1)
        matrices = [torch.cat([nothing if tap is None else kernels[tap] for tap in met], dim=1) for met in self.meets]
        result = torch.stack([linear(pixels, matrix, self.bias) for matrix in matrices], dim=1)
        return result.reshape(-1, *self.outputs, len(self.weight)).permute(0, 3, 1, 2)


def with_products(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """Return a copy of ``model`` for images of ``shape`` (C, H, W) that computes small convolutions as products.

    ``model`` itself if it has none. Needs no weights: the model may be on torch's device "meta".
    """
    sizes = taps.sizes(model, shape)
    kinds = {name: _kind(model.get_submodule(name), size) for name, size in sizes.items()}
    if not any(kinds.values()):
        return model
    model = copy.deepcopy(model)
    for name, kind in kinds.items():
        if kind is None:
            continue
        layer = model.get_submodule(name)
        replacement = kind(layer, sizes[name])
        for other, module in list(model.named_modules(remove_duplicate=False)):
            if module is layer:
                model.set_submodule(other, replacement)
    return model


def _kind(layer: nn.Conv2d, size: tuple[int, int]) -> type[Product] | None:
    """Return the product that computes ``layer`` on images of ``size`` (H, W), None if torch convolves faster."""
    pixels, bare = size[0] * size[1], not any(taps.border(layer))
    if layer.groups > 1:
        return None
    if bare and layer.kernel_size == (1, 1) and pixels <= POINTS:
        return Points
    if bare and layer.kernel_size == size:
        return Once
    if pixels <= DENSE and 2 * pixels <= layer.kernel_size[0] * layer.kernel_size[1]:
        return Dense
    return None
