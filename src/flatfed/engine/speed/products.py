"""Convolutions of very small images as matrix products.

Libraries' convolutions are made for large images. With the 7x7 stem, ResNet-18's last stages see images of 2 x 2 pixels
and of one, on which a 3 x 3 kernel meets padding more often than pixels: the same sums as one product of the images,
written as rows, with a matrix of the kernel's taps are fewer operations, and run at a product's speed. Parameters keep
their names, shapes and places.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from flatfed.engine.speed import taps

POINTS, DENSE = 64, 4  # pixels of the largest images on which a product was measured to be faster, for a batch of 50


def points(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return the convolution of ``images`` (batch, C, H, W) by one tap: every stride-th pixel times a matrix."""
    pixels = images[:, :, :: layer.stride[0], :: layer.stride[1]].permute(0, 2, 3, 1)
    result = linear(pixels.flatten(0, 2), layer.weight.flatten(1), layer.bias)
    return result.reshape(*pixels.shape[:3], -1).permute(0, 3, 1, 2)


def once(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return the convolution of ``images`` (batch, C, H, W) by a kernel that lies on them once, tap on pixel."""
    return linear(images.flatten(1), layer.weight.flatten(1), layer.bias)[:, :, None, None]


def dense(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return the convolution of ``images`` (batch, C, H, W) as one matrix a pixel of its result.

    ``layer.meets`` has for each pixel of the result (of size ``layer.outputs``), row by row, the tap that lies on each
    pixel of the image, None for none.
    """
    # A tap's weights beside each other, once: matrices are then copies of whole blocks, and their gradients sums of
    # such. One matrix a pixel of the result, since all at once would copy the kernels of rows that train together.
    kernels = layer.weight.flatten(2).permute(2, 0, 1).contiguous().unbind()
    nothing = torch.zeros_like(kernels[0])
    pixels = images.permute(0, 2, 3, 1).flatten(1)
    matrices = [torch.cat([nothing if tap is None else kernels[tap] for tap in met], dim=1) for met in layer.meets]
    result = torch.stack([linear(pixels, matrix, layer.bias) for matrix in matrices], dim=1)
    return result.reshape(-1, *layer.outputs, len(layer.weight)).permute(0, 3, 1, 2)


#: What computes a convolution: the layer and its images to their convolution.
Form = Callable[[nn.Conv2d, Tensor], Tensor]


def with_products(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
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


def _form(layer: nn.Conv2d, size: tuple[int, int]) -> Form | None:
    """Return as which product ``layer`` is computed on images of ``size`` (H, W), None where it is convolved."""
    pixels, bare = size[0] * size[1], not any(taps.border(layer))
    if layer.groups > 1:
        return None
    if bare and layer.kernel_size == (1, 1) and pixels <= POINTS:
        return points
    if bare and layer.kernel_size == size:
        return once
    if pixels <= DENSE and 2 * pixels <= layer.kernel_size[0] * layer.kernel_size[1]:
        return dense
    return None


def _reform(layer: nn.Conv2d, form: Form, size: tuple[int, int]) -> None:
    """Have ``layer`` compute as ``form`` does on images of ``size`` (H, W)."""
    if form is dense:
        (height, width), (left, _, top, _) = size, taps.border(layer)
        layer.outputs = taps.outputs(layer, size)

        def tap(row: int, column: int, y: int, x: int) -> int | None:
            down, right = y + top - row * layer.stride[0], x + left - column * layer.stride[1]
            inside = 0 <= down < layer.kernel_size[0] and 0 <= right < layer.kernel_size[1]
            return down * layer.kernel_size[1] + right if inside else None

        layer.meets = [
            [tap(row, column, y, x) for y, x in product(range(height), range(width))]
            for row, column in product(*map(range, layer.outputs))
        ]
    # Not another layer in its place: weights that are tied, hooks, and lists that the model keeps stay what they were.
    layer.forward = MethodType(form, layer)
