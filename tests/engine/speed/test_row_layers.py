"""Executor products: each layer computes all clients at once, with the gradients of one client after the other."""

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
from flatfed.engine.speed.live import with_row_layers
from flatfed.engine.speed.row_convolution import RowConv2d
from flatfed.engine.speed.row_norm import RowGroupNorm
from samples import sampled

ROWS, IMAGES, CLASSES = 2, 2, 10
CIFAR, LIMIT = (3, 32, 32), 1e-12


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


#: Models with the number of layers that compute all rows at once.
MODELS = {
    "imagenet": ("resnet18_gn", CIFAR, {"stem": "imagenet", "groups": 2}, 40),
    "cifar": ("resnet18_gn", (3, 8, 8), {"stem": "cifar", "groups": 32}, 40),
    "last": ("cnn", (3, 12, 12), {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}, 2),
    "each": ("cnn", (1, 14, 14), {"pooling": "each"}, 2),
    "tiny": ("cnn_tiny", (1, 8, 8), {}, 2),
    "vgg": ("vgg11_gn", CIFAR, {}, 16),
    "own": (None, (3, 10, 12), {}, 8),
}


@pytest.mark.parametrize("case", sampled(MODELS, ["cifar", "last", "each", "tiny", "own"]))
def test_a_gradient_of_all_rows_is_that_of_each(case):
    """Losses and gradients of random rows of all weights, and of a batch in which one row has an image less."""
    name, shape, options, at_once = MODELS[case]
    model = models.build(name, shape, CLASSES, options) if name else Own()
    draws, layout = torch.Generator().manual_seed(0), Layout.of(model)
    initial = models.initial_weights(model, draws)
    settings = algorithms.build("fedavg", {}), shape, torch.device("cpu"), torch.float64
    weights = live.weights(model, initial, *settings, rows_at_once=True)
    changes = 0.1 * torch.randn(ROWS, len(initial), generator=draws)
    w = torch.stack([weights.taps.reduce(row) for row in (initial * (1 + changes)).double()])
    weight = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    images = torch.randn(ROWS, IMAGES, *shape, generator=draws, dtype=torch.float64)
    masks = [2.0 * torch.randint(2, (ROWS, IMAGES, *size), generator=draws).double() for size, _ in model.dropout]
    batch = Batch(images, torch.randint(CLASSES, weight.shape, generator=draws), weight, masks)

    def full(rows: Tensor) -> Tensor:
        return torch.stack([weights.taps.expand(row) for row in rows])

    products = Products(weights.model, weights.layout)
    assert sum(isinstance(layer, RowConv2d | RowGroupNorm) for layer in products.model.modules()) == at_once
    losses, found = products(w, batch)
    expected_losses, expected = Sequential(model.double(), layout)(full(w), batch)
    assert (losses - expected_losses).abs().max() < LIMIT
    largest, found = expected.abs().max(), layout.views(full(found))
    for tensor, gradient in layout.views(expected).items():
        difference = (found[tensor] - gradient).abs().max()
        assert difference < LIMIT * max(gradient.abs().max(), 1e-3 * largest), tensor


def test_a_convolution_of_a_single_image():
    layer, image = with_row_layers(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1)))[0], torch.randn(3, 5, 6)
    assert isinstance(layer, RowConv2d) and torch.equal(layer(image), layer(image[None])[0])


def test_triton_kernels_by_the_interpreter():
    """See interpreted.py. Another process: Triton decides at its import how kernels run."""
    pytest.importorskip("triton", reason="Triton comes with torch's CUDA builds")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "interpreted.py"]
    place, environment = Path(__file__).parent, {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
