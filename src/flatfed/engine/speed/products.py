"""Convolutions of very small images as matrix products.

With the 7x7 stem, ResNet-18's last stages see images of 2 x 2 pixels and of one, on which a 3 x 3 kernel covers more
padding than pixels. A product of the images with a matrix of the taps needs fewer operations.
"""

from __future__ import annotations

import copy
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from flatfed.engine.speed import taps
from flatfed.engine.speed.taps import Window

POINTS, DENSE = 64, 4  # pixels of the largest images on which a product is faster (batches of 50)


class Product(nn.Conv2d):
    """A convolution ``layer`` on images of ``size`` (H, W), computed as a product.

    Both layers share parameters and hooks: tied weights and lists of layers stay valid.
    """

    def __init__(self, layer: nn.Conv2d, size: tuple[int, int]):
        vars(self).update(vars(layer))


class PointwiseProduct(Product):
    """One tap."""

    def forward(self, images: Tensor) -> Tensor:
        pixels = images[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        result = linear(pixels.flatten(0, 2), self.weight.flatten(1), self.bias)
        return result.reshape(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class SinglePositionProduct(Product):
    """A kernel of the size of the images."""

    def forward(self, images: Tensor) -> Tensor:
        return linear(images.flatten(1), self.weight.flatten(1), self.bias)[:, :, None, None]


class DenseProduct(Product):
    """One matrix for each pixel of the result.

    ``taps_of_pixels``: for each pixel of the result, the tap on each pixel of the image, or None.
    """

    def __init__(self, layer: nn.Conv2d, size: tuple[int, int]):
        super().__init__(layer, size)
        window = Window.of(layer)
        (height, width), (top, left), self.outputs = size, window.corner, window.output_size(size)

        def tap(row: int, column: int, y: int, x: int) -> int | None:
            tap_y, tap_x = y + top - row * layer.stride[0], x + left - column * layer.stride[1]
            inside = 0 <= tap_y < layer.kernel_size[0] and 0 <= tap_x < layer.kernel_size[1]
            return tap_y * layer.kernel_size[1] + tap_x if inside else None

        self.taps_of_pixels = [
            [tap(row, column, y, x) for y, x in product(range(height), range(width))]
            for row, column in product(*map(range, self.outputs))
        ]

    def forward(self, images: Tensor) -> Tensor:
        # Contiguous weights per tap make the matrices and their gradients copies of whole blocks. One matrix for each
        # pixel: a common one would copy the kernels of rows that train together.
        kernels = self.weight.flatten(2).permute(2, 0, 1).contiguous().unbind()
        zeros = torch.zeros_like(kernels[0])
        pixels = images.permute(0, 2, 3, 1).flatten(1)
        matrices = [
            torch.cat([zeros if tap is None else kernels[tap] for tap in pixel], dim=1) for pixel in self.taps_of_pixels
        ]
        result = torch.stack([linear(pixels, matrix, self.bias) for matrix in matrices], dim=1)
        return result.reshape(-1, *self.outputs, len(self.weight)).permute(0, 3, 1, 2)


def with_products(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """Return a copy of ``model`` with products for small convolutions of images of ``shape`` (C, H, W).

    The model may be on torch's device "meta"; without small convolutions it is returned itself.
    """
    sizes = taps.image_sizes(model, shape)
    kinds = {name: kind for name, size in sizes.items() if (kind := _kind(model.get_submodule(name), size))}
    if not kinds:
        return model
    model = copy.deepcopy(model)
    for name, kind in kinds.items():
        layer = model.get_submodule(name)
        replacement = kind(layer, sizes[name])
        for path, module in list(model.named_modules(remove_duplicate=False)):
            if module is layer:
                model.set_submodule(path, replacement)
    return model


def _kind(layer: nn.Conv2d, size: tuple[int, int]) -> type[Product] | None:
    pixels, bare = size[0] * size[1], not any(Window.of(layer).border)
    if layer.groups > 1:
        return None
    if bare and layer.kernel_size == (1, 1) and pixels <= POINTS:
        return PointwiseProduct
    if bare and layer.kernel_size == size:
        return SinglePositionProduct
    if pixels <= DENSE and 2 * pixels <= layer.kernel_size[0] * layer.kernel_size[1]:
        return DenseProduct
    return None
