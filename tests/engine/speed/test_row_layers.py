"""Executor products: each layer computes all clients at once, with the gradients of one client after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from flatfed import algorithms, models
from flatfed.algorithms._layout import Layout
from flatfed.engine.executors import Batch, Products, Sequential
from flatfed.engine.speed import live
from flatfed.engine.speed.row_convolution import RowConv2d
from flatfed.engine.speed.row_layers import convert
from flatfed.engine.speed.row_norm import RowGroupNorm

ROWS, IMAGES, CLASSES = 2, 2, 10
CIFAR, LIMIT = (3, 32, 32), 1e-12
IMAGENET = "resnet18_gn", CIFAR, {"stem": "imagenet", "groups": 2}
#: Models with the number of layers that compute all rows at once.
MODELS = {
    "imagenet": (*IMAGENET, 40),
    "cifar": ("resnet18_gn", (3, 8, 8), {"stem": "cifar", "groups": 32}, 40),
    "last": ("cnn", (3, 12, 12), {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}, 2),
    "each": ("cnn", (1, 14, 14), {"pooling": "each"}, 2),
    "tiny": ("cnn_tiny", (1, 8, 8), {}, 2),
    "vgg": ("vgg11_gn", CIFAR, {}, 16),
    "torchvision": ("resnet18", CIFAR, {"groups": 2}, 40),
}


class Own(nn.Module):
    """A user's model: some layers compute all rows at once, the others run under vmap."""

    def __init__(self):
        super().__init__()
        self.dropout = []
        self.wide = nn.Conv2d(3, 6, (3, 2), stride=(2, 1), padding=(0, 1))  # 10 x 12 to 4 x 13
        self.grouped = nn.Conv2d(6, 6, 3, padding=1, groups=3)
        self.dilated = nn.Conv2d(6, 6, 3, padding=2, dilation=2, bias=False)
        self.same = nn.Conv2d(6, 6, 3, padding="same")
        self.circular = nn.Conv2d(6, 6, 3, padding=1, padding_mode="circular")
        self.plain_norm = nn.GroupNorm(2, 6, affine=False)
        self.norm = nn.GroupNorm(3, 6)
        self.layer_norm = nn.LayerNorm([6, 4, 13])
        self.twice = nn.Conv2d(6, 6, 3, padding=(1, 2), stride=(1, 2))
        self.tied = nn.Conv2d(6, 6, 3, padding=1)
        self.tied.weight = self.twice.weight
        self.pointwise = nn.Conv2d(6, 5, 1, stride=2, padding=1)
        self.last = nn.Conv2d(5, 8, 3)
        self.join = nn.Conv2d(8, 8, 1, bias=False)
        self.norm_of_features = nn.GroupNorm(2, 8)
        self.dense = nn.Linear(8, CLASSES)

    def forward(self, x, masks=None):
        for layer in (self.wide, self.grouped, self.dilated, self.plain_norm, self.same, self.norm, self.circular):
            x = torch.tanh_(layer(x))
        x = self.twice(relu(self.tied(self.layer_norm(x))))
        x = torch.tanh(self.pointwise(self.twice(x)))
        x = torch.tanh_(self.join(self.last(x)))
        return self.dense(self.norm_of_features(x.mean(dim=(2, 3))))


def both(model: nn.Module, shape: tuple[int, int, int]) -> tuple[Products, list[tuple[Tensor, Tensor]]]:
    """Return the executor, and losses and gradients of random rows of all weights with products and sequentially."""
    draws = torch.Generator().manual_seed(0)
    initial, cpu = models.initial_weights(model, draws), torch.device("cpu")
    options = algorithms.build("fedavg", {}), shape, cpu, torch.float64
    weights = live.weights(model, initial, *options, rows_at_once=True)
    changes = 0.1 * torch.randn(ROWS, len(initial), generator=draws)
    w = torch.stack([weights.taps.reduce(row) for row in (initial * (1 + changes)).double()])
    weight = torch.full((ROWS, IMAGES), 1 / IMAGES, dtype=torch.float64)
    weight[1] = torch.tensor([1.0, 0.0])  # a smaller client's last batch
    images = torch.randn(ROWS, IMAGES, *shape, generator=draws, dtype=torch.float64)
    masks = [2.0 * torch.randint(2, (ROWS, IMAGES, *size), generator=draws).double() for size, _ in model.dropout]
    batch = Batch(images, torch.randint(CLASSES, weight.shape, generator=draws), weight, masks)

    def full(rows: Tensor) -> Tensor:
        return torch.stack([weights.taps.expand(row) for row in rows])

    products = Products(weights.model, weights.layout)
    losses, gradients = products(w, batch)
    return products, [(losses, full(gradients)), Sequential(model.double(), Layout.of(model))(full(w), batch)]


def compare(model: nn.Module, shape: tuple[int, int, int], at_once: int) -> None:
    """``at_once``: the number of layers that compute all rows at once."""
    layout = Layout.of(model)
    products, ((losses, found), (expected_losses, expected)) = both(model, shape)
    assert sum(isinstance(layer, RowConv2d | RowGroupNorm) for layer in products.model.modules()) == at_once
    assert (losses - expected_losses).abs().max() < LIMIT
    largest = expected.abs().max()
    for name, gradient in layout.views(expected).items():
        difference = (layout.views(found)[name] - gradient).abs().max()
        assert difference < LIMIT * max(gradient.abs().max(), 1e-3 * largest), name


@pytest.mark.parametrize("case", MODELS)
def test_a_gradient_of_all_rows_is_that_of_each(case):
    name, shape, options, at_once = MODELS[case]
    if case == "torchvision":
        pytest.importorskip("torchvision")
    compare(models.build(name, shape, CLASSES, options), shape, at_once)


def test_layers_of_a_users_model():
    compare(Own(), (3, 10, 12), 8)


def test_a_convolution_of_a_single_image():
    layer, image = convert(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1)))[0], torch.randn(3, 5, 6)
    assert isinstance(layer, RowConv2d) and torch.equal(layer(image), layer(image[None])[0])


def test_triton_kernels_by_the_interpreter():
    """See interpreted.py. Another process: Triton decides at its import who runs its kernels."""
    pytest.importorskip("triton", reason="Triton comes with torch's CUDA builds")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "interpreted.py"]
    place, environment = Path(__file__).parent, {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
