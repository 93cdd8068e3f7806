"""Convolutions of small images as products: the same numbers as torch's convolution, in fewer operations."""

from __future__ import annotations

import copy

import pytest
import torch
from test_taps import Deep
from torch import nn
from torch.func import functional_call, vmap
from torch.utils.flop_counter import FlopCounterMode

from flatfed import models
from flatfed.engine.speed import products, taps
from harness import description, full_rows, needs, simulation, write_problem

RESNET = {"stem": "imagenet", "groups": 2}
#: kernel, stride, padding, image, and the form that it takes
SMALL = [
    (1, 1, 0, (4, 4), products.PointwiseProduct),
    (1, 2, 0, (5, 4), products.PointwiseProduct),
    (2, 1, 0, (2, 2), products.SinglePositionProduct),
    (1, 1, 0, (1, 1), products.PointwiseProduct),
    ((2, 1), 1, 0, (2, 1), products.SinglePositionProduct),
    (3, 1, 1, (1, 1), products.DenseProduct),
    (3, 1, 1, (2, 2), products.DenseProduct),
    (3, 2, 1, (2, 2), products.DenseProduct),
    (3, (2, 1), 1, (1, 4), products.DenseProduct),
    (5, 1, 2, (2, 2), products.DenseProduct),
    ((3, 5), (1, 2), (1, 2), (2, 2), products.DenseProduct),
]
LARGE = [(3, 1, 1, (4, 4)), (3, 1, 1, (2, 3)), (7, 1, 3, (4, 4)), (1, 1, 1, (2, 2)), (1, 1, 0, (9, 8))]


def form_of(layer):
    """Return what computes a convolution in place of torch, None where nothing does."""
    return type(layer) if isinstance(layer, products.Product) else None


class One(nn.Module):
    def __init__(self, *args, **options):
        super().__init__()
        self.layer = nn.Conv2d(*args, **options, dtype=torch.float64)

    def forward(self, images):
        return self.layer(images)


def with_gradients(model, tensors, images):
    tensors = {name: value.detach().requires_grad_() for name, value in tensors.items()}
    images = images.detach().requires_grad_()
    result = functional_call(model, tensors, (images,))
    weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)
    return result, *torch.autograd.grad((result * weights).sum(), [*tensors.values(), images])


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding", "size", "form"), SMALL)
def test_a_product_is_the_convolution(kernel, stride, padding, size, form, bias, order):
    torch.manual_seed(0)
    model = One(3, 4, kernel, stride, padding, bias=bias)
    small = products.with_products(model, (3, *size))
    assert form_of(small.layer) is form and form_of(model.layer) is None
    images = torch.randn(6, 3, *size, dtype=torch.float64).contiguous(memory_format=order)
    tensors = dict(model.named_parameters())
    assert [name for name, _ in small.named_parameters()] == list(tensors)
    for found, expected in zip(
        with_gradients(small, tensors, images), with_gradients(model, tensors, images), strict=True
    ):
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("kernel", "stride", "padding", "size", "form"), SMALL)
def test_rows_that_train_together(kernel, stride, padding, size, form):
    """Under vmap, with the gradients of the sum, as the stacked executor asks for them."""
    torch.manual_seed(0)
    model = One(3, 4, kernel, stride, padding)
    small = products.with_products(model, (3, *size))
    rows = {name: torch.randn(2, *value.shape, dtype=torch.float64) for name, value in model.named_parameters()}
    images = torch.randn(2, 5, 3, *size, dtype=torch.float64)
    leaves = {name: value.clone().requires_grad_() for name, value in rows.items()}
    together = vmap(lambda row, taken: functional_call(small, row, (taken,)))(leaves, images)
    weights = torch.linspace(-1, 1, together[0].numel(), dtype=torch.float64).reshape(together[0].shape)
    gradients = torch.autograd.grad((together * weights).sum(), list(leaves.values()))
    for i in range(2):
        alone, *expected, _ = with_gradients(model, {name: value[i] for name, value in rows.items()}, images[i])
        torch.testing.assert_close(together[i], alone, rtol=0, atol=1e-13)
        for found, one in zip(gradients, expected, strict=True):
            torch.testing.assert_close(found[i], one, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), LARGE)
def test_where_images_are_larger_a_convolution_stays(kernel, stride, padding, size):
    model = One(3, 4, kernel, stride, padding)
    assert products.with_products(model, (3, *size)) is model


def test_what_is_not_plain_stays():
    for options in (
        {"groups": 2, "padding": 2},
        {"dilation": 2, "padding": 4},
        {"padding": 2, "padding_mode": "reflect"},
    ):
        model = One(4, 4, 5, **options)
        assert products.with_products(model, (4, 3, 3)) is model
    assert products.with_products(One(4, 4, 5, padding=2), (4, 3, 3)) is not model


@pytest.mark.parametrize(
    ("name", "options", "cropped", "changed"),
    [("resnet18_gn", RESNET, True, 10), ("resnet18_gn", RESNET, False, 10), ("vgg11_gn", {}, False, 2)],
)
def test_models_give_the_same(name, options, cropped, changed):
    shape = (3, 32, 32)
    model = models.build(name, shape, 10, options)
    model = (taps.cropped(model, shape).model if cropped else model).double()
    small = products.with_products(model, shape)
    assert sum(form_of(layer) is not None for layer in small.modules()) == changed
    torch.manual_seed(0)
    tensors = {key: torch.randn_like(value) / value[0].numel() ** 0.5 for key, value in model.named_parameters()}
    images = torch.randn(4, *shape, dtype=torch.float64)
    for found, expected in zip(
        with_gradients(small, tensors, images), with_gradients(model, tensors, images), strict=True
    ):
        assert (found - expected).norm() <= 1e-11 * expected.norm()


class Listed(nn.Module):
    """Calls its convolutions by way of a list."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 4, 3, 1, 1)
        self.order = [self.one, self.two]

    def forward(self, images):
        for layer in self.order:
            images = layer(images).reshape(-1, layer.out_channels, 2, 2)
        return images


class Twice(Listed):
    """Has one convolution under two names, and another that is tied to it."""

    def __init__(self):
        super().__init__()
        self.two = self.one
        self.three = nn.Conv2d(4, 4, 3, 1, 1)
        self.three.weight = self.one.weight
        self.order = [self.one, self.two, self.three]


class Hooked(Listed):
    """Doubles what a convolution gives, by a hook."""

    def __init__(self):
        super().__init__()
        self.one.register_forward_hook(lambda layer, inputs, output: 2 * output)


@pytest.mark.parametrize("kind", [Listed, Twice, Hooked])
def test_what_a_user_may_build(kind):
    torch.manual_seed(0)
    model = kind().double()
    small = products.with_products(model, (4, 2, 2))
    assert form_of(small.one) is products.DenseProduct and form_of(model.one) is None
    assert [name for name, _ in small.named_parameters()] == [name for name, _ in model.named_parameters()]
    images = torch.randn(3, 4, 2, 2, dtype=torch.float64)
    tensors = {name: torch.randn_like(value) for name, value in model.named_parameters()}
    for found, expected in zip(
        with_gradients(small, tensors, images), with_gradients(model, tensors, images), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    small.to(torch.float32)
    assert model.one.weight.dtype == torch.float64


@pytest.mark.parametrize(("kernel", "stride", "padding", "size", "form"), SMALL)
def test_in_bfloat16_as_a_convolution(kernel, stride, padding, size, form):
    torch.manual_seed(0)
    model = One(3, 4, kernel, stride, padding).float()
    images = torch.randn(6, 3, *size)
    model, images = model.to(torch.bfloat16), images.to(torch.bfloat16)
    found, expected = products.with_products(model, (3, *size))(images), model(images)
    assert found.dtype == expected.dtype == torch.bfloat16
    assert (found.float() - expected.float()).abs().max() < 0.02 * expected.float().abs().max()


@pytest.mark.parametrize("name", ["fedavg", "fedsmoo", "fedadam"])  # the last keeps its dead taps
def test_a_run_is_the_same(tmp_path, monkeypatch, name):
    """Convolutions of images of 4 x 4, 2 x 1 and one pixel; all executors."""
    monkeypatch.setattr(models, "build", lambda *_: Deep())
    write_problem(tmp_path)
    spec = description(name, **needs(name))
    runs = [simulation(tmp_path, spec, executor) for executor in ("sequential", "stacked", "products")]
    assert all(any(map(form_of, run.model.modules())) for run in runs[:2])
    with monkeypatch.context() as patch:
        patch.setattr(products, "with_products", lambda model, shape: model)
        plain = simulation(tmp_path, spec, "sequential")
    for _ in range(spec["rounds"]):
        line = plain.advance()
        for run in runs:
            assert run.advance()["test_loss"] == pytest.approx(line["test_loss"], rel=1e-11)
    for run in runs:
        assert (full_rows(run, run.server["w"]) - full_rows(plain, plain.server["w"])).abs().max() < 1e-12


def test_a_resnet_takes_fewer_operations():
    """On images of 32 x 32 the 7x7 stem leaves 2 x 2 and 1 x 1 pixels: 0.89 of the operations for a batch of 50."""
    shape = (3, 32, 32)
    model = taps.cropped(models.build("resnet18_gn", shape, 10, RESNET), shape).model

    def operations(module):
        with FlopCounterMode(display=False) as counter:
            module(torch.zeros(50, *shape))
        return counter.get_total_flops()

    layers = products.with_products(model, shape).modules()
    dense = [layer for layer in layers if form_of(layer) is products.DenseProduct]
    assert len(dense) == 3
    assert operations(products.with_products(model, shape)) < 0.9 * operations(model)


def test_a_copy_moves_as_one_module_does():
    model = One(3, 4, 3, 1, 1)
    small = products.with_products(model, (3, 2, 2))
    images = torch.randn(5, 3, 2, 2)
    moved = copy.deepcopy(small).to(torch.float32)
    torch.testing.assert_close(moved(images), model.float()(images), rtol=1e-5, atol=1e-5)
    assert small.state_dict().keys() == model.state_dict().keys()
