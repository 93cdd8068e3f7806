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

POINTS, DENSE = 64, 4  # pixels of the largest images on which a product was measured to be faster, for a batch of 50


class Points(nn.Conv2d):
    """A convolution of one tap: every stride-th pixel times a matrix."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        pixels = images[:, :, :: self.stride[0], :: self.stride[1]].permute(0, 2, 3, 1)
        result = linear(pixels.flatten(0, 2), self.weight.flatten(1), self.bias)
        return result.reshape(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


class Whole(nn.Conv2d):
    """A convolution whose kernel lies on the image once, tap on pixel."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W), of one pixel."""
        return linear(images.flatten(1), self.weight.flatten(1), self.bias)[:, :, None, None]


class Dense(nn.Conv2d):
    """A convolution as one matrix from all pixels of an image to all of its result, of size ``outputs`` (H, W).

    ``meets`` (outputs, taps, pixels) is 1 where, for a pixel of the result, a tap lies on a pixel of the image.
    """

    meets: Tensor
    outputs: tuple[int, int]

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution of ``images`` (batch, C, H, W)."""
        # Products with zeros and ones are several times as fast as indexing, and so are their gradients; one for each
        # pixel of the result, since all at once would copy the kernels of rows that train together.
        kernel, pixels = self.weight.flatten(2).flatten(0, 1), images.flatten(1)
        matrices = [(kernel @ meets).reshape(len(self.weight), -1) for meets in self.meets]
        result = torch.stack([linear(pixels, m, self.bias) for m in matrices], dim=1)
        return result.reshape(-1, *self.outputs, len(self.weight)).permute(0, 3, 1, 2)


def of(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """Return a copy of ``model`` for images of ``shape`` (C, H, W) that computes small convolutions as products.

    ``model`` itself where it has none. Needs no content: the model may be on torch's device "meta".
    """
    sizes = taps.sizes(model, shape)
    forms = {name: _form(model.get_submodule(name), size) for name, size in sizes.items()}
    if not any(forms.values()):
        return model
    model = copy.deepcopy(model)
    for name, form in forms.items():
        if form is not None:
            _reform(model.get_submodule(name), form, sizes[name])
    return model


def _form(layer: nn.Conv2d, size: tuple[int, int]) -> type[nn.Conv2d] | None:
    """Return as which product ``layer`` is computed on images of ``size`` (H, W), None where it is convolved."""
    pixels, bare = size[0] * size[1], not any(taps.border(layer))
    if layer.groups > 1:
        return None
    if bare and layer.kernel_size == (1, 1) and pixels <= POINTS:
        return Points
    if bare and layer.kernel_size == size:
        return Whole
    if pixels <= DENSE and 2 * pixels <= layer.kernel_size[0] * layer.kernel_size[1]:
        return Dense
    return None


def _reform(layer: nn.Conv2d, form: type[nn.Conv2d], size: tuple[int, int]) -> None:
    """Have ``layer`` compute as ``form`` does on images of ``size`` (H, W)."""
    if form is Dense:
        outputs, (left, _, top, _) = taps.outputs(layer, size), taps.border(layer)
        meets = torch.zeros(*outputs, *layer.kernel_size, *size)
        for row, column, down, right in product(*map(range, (*outputs, *layer.kernel_size))):
            y, x = row * layer.stride[0] - top + down, column * layer.stride[1] - left + right
            if 0 <= y < size[0] and 0 <= x < size[1]:
                meets[row, column, down, right, y, x] = 1
        layer.outputs = outputs
        layer.register_buffer("meets", meets.flatten(4).flatten(2, 3).flatten(0, 1).to(layer.weight), persistent=False)
    # Not another layer in its place: weights that are tied, hooks, and lists that the model keeps stay what they were.
    layer.__class__ = form
