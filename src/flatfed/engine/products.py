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

from flatfed.engine import taps


class Points(nn.Module):
    """A convolution of one tap: every stride-th pixel times a matrix."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        self.weight, self.bias, self.stride = layer.weight, layer.bias, layer.stride

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        pixels = images[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        result = linear(pixels.flatten(0, 2), self.weight.flatten(1), self.bias)
        return result.reshape(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class Whole(nn.Module):
    """A convolution whose kernel lies on the image once, tap on pixel."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W), of one pixel."""
        return linear(images.flatten(1), self.weight.flatten(1), self.bias)[:, :, None, None]


class Dense(nn.Module):
    """A convolution as one matrix from all pixels of an image to all of its result.

    ``meets`` (outputs, taps, pixels) is 1 where, for a pixel of the result, a tap lies on a pixel of the image.
    """

    meets: Tensor

    def __init__(self, layer: nn.Conv2d, size: tuple[int, int]):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.outputs = taps.outputs(layer, size)
        left, _, top, _ = taps.border(layer)
        meets = torch.zeros(*self.outputs, *layer.kernel_size, *size)
        for row, column, down, right in product(*map(range, (*self.outputs, *layer.kernel_size))):
            y, x = row * layer.stride[0] - top + down, column * layer.stride[1] - left + right
            if 0 <= y < size[0] and 0 <= x < size[1]:
                meets[row, column, down, right, y, x] = 1
        meets = meets.flatten(4).flatten(2, 3).flatten(0, 1)
        self.register_buffer("meets", meets.to(layer.weight), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        # Products with zeros and ones are several times as fast as indexing, and so are their gradients; one for each
        # pixel of the result, since all at once would copy the kernels of rows that train together.
        kernel, pixels = self.weight.flatten(2).flatten(0, 1), images.flatten(1)
        matrices = [(kernel @ meets).reshape(len(self.weight), -1) for meets in self.meets]
        result = torch.stack([linear(pixels, m) for m in matrices], dim=1).reshape(-1, *self.outputs, len(self.weight))
        if self.bias is not None:
            result = result + self.bias
        return result.permute(0, 3, 1, 2)


def of(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """Return a copy of ``model`` for images of ``shape`` (C, H, W) that computes small convolutions as products.

    ``model`` itself where it has none. Needs no content: the model may be on torch's device "meta".
    """
    formed = {name: _form(model.get_submodule(name), size) for name, size in taps.sizes(model, shape).items()}
    formed = {name: layer for name, layer in formed.items() if layer is not None}
    if not formed:
        return model
    model = copy.deepcopy(model)
    for name, layer in formed.items():
        taps.exchange(model, name, layer)
    return model


def _form(layer: nn.Conv2d, size: tuple[int, int]) -> nn.Module | None:
    """Return ``layer`` on images of ``size`` (H, W) as a product, None where a convolution is as fast."""
    if layer.groups > 1:
        return None
    bare = not any(taps.border(layer))
    if bare and layer.kernel_size == (1, 1):
        return Points(layer)
    if bare and layer.kernel_size == size:
        return Whole(layer)
    # At most half of the operations: a part of what is won goes into building the matrix.
    if 2 * size[0] * size[1] <= layer.kernel_size[0] * layer.kernel_size[1]:
        return Dense(layer, size)
    return None
