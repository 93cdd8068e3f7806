"""Convolutions of small images as products: the same numbers as torch's convolution, in fewer operations."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from flatfed.engine.speed import products
from flatfed.engine.speed.products import DenseProduct, PointwiseProduct, SinglePositionProduct

#: Arguments of a convolution, image, and the form that computes it.
SMALL = [
    ((1, 1, 0), (4, 4), PointwiseProduct),
    ((1, 2, 0), (5, 4), PointwiseProduct),
    ((2, 1, 0), (2, 2), SinglePositionProduct),
    ((3, 1, 1), (1, 1), DenseProduct),
    ((3, 2, 1), (2, 2), DenseProduct),
    ((5, 1, 2), (2, 2), DenseProduct),
    (((3, 5), (1, 2), (1, 2)), (2, 2), DenseProduct),
]
#: Arguments of a convolution of four channels, and image, that torch computes.
LARGE_OR_SPECIAL = [
    *(({"kernel_size": 3, "padding": 1}, (4, 4)), ({"kernel_size": 3, "padding": 1}, (2, 3))),
    *(({"kernel_size": 7, "padding": 3}, (4, 4)), ({"kernel_size": 1, "padding": 1}, (2, 2))),
    *(({"kernel_size": 1}, (9, 8)), ({"kernel_size": 5, "padding": 2, "groups": 2}, (2, 2))),
    *(({"kernel_size": 2, "padding": 1}, (1, 3)), ({"kernel_size": 5, "padding": 4, "dilation": 2}, (2, 2))),
    ({"kernel_size": 5, "padding": 2, "padding_mode": "reflect"}, (3, 3)),
]


class One(nn.Module):
    def __init__(self, *arguments, **options):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(*arguments, **options, dtype=torch.float64)

    def forward(self, images):
        return self.layer(images)


def forms(model: nn.Module) -> list[type[products.Product]]:
    """Return the forms of all products in ``model``."""
    return [type(layer) for layer in model.modules() if isinstance(layer, products.Product)]


def slopes(result):
    return torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)


def with_gradients(model, tensors, images):
    """Return the result of ``model`` and its gradients, each as a vector."""
    tensors = {name: value.detach().requires_grad_() for name, value in tensors.items()}
    images = images.detach().requires_grad_()
    result = functional_call(model, tensors, (images,))
    gradients = torch.autograd.grad((result * slopes(result)).sum(), [*tensors.values(), images])
    return [values.flatten() for values in (result, *gradients)]


@pytest.mark.parametrize(("order", "bias"), [(torch.contiguous_format, True), (torch.channels_last, False)])
@pytest.mark.parametrize(("arguments", "size", "form"), SMALL)
def test_a_product_is_the_convolution(arguments, size, form, bias, order):
    """Also of two rows under vmap, with the gradients of the sum, as the stacked executor asks."""
    model = One(3, 4, *arguments, bias=bias)
    small = products.with_products(model, (3, *size))
    assert forms(small) == [form] and forms(model) == []
    images = torch.randn(2, 6, 3, *size, dtype=torch.float64)
    images = torch.stack([part.contiguous(memory_format=order) for part in images])
    tensors = dict(model.named_parameters())
    assert [name for name, _ in small.named_parameters()] == list(tensors)
    rows = {name: torch.randn(2, *value.shape, dtype=torch.float64) for name, value in tensors.items()}
    leaves = {name: value.clone().requires_grad_() for name, value in rows.items()}
    together = vmap(lambda row, taken: functional_call(small, row, (taken,)))(leaves, images)
    gradients = torch.autograd.grad((together * slopes(together[0])).sum(), list(leaves.values()))
    for i in range(2):
        row = {name: value[i] for name, value in rows.items()}
        expected = with_gradients(model, row, images[i])
        torch.testing.assert_close(with_gradients(small, row, images[i]), expected, rtol=0, atol=1e-13)
        found = [values[i].flatten() for values in (together, *gradients)]
        torch.testing.assert_close(found, expected[:-1], rtol=0, atol=1e-13)


@pytest.mark.parametrize(("options", "size"), LARGE_OR_SPECIAL)
def test_large_images_and_special_convolutions_stay(options, size):
    model = One(4, 4, **options)
    assert products.with_products(model, (4, *size)) is model
