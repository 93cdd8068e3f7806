"""Taking a maximum before the relu, as the models do, gives the bits of the papers' order: relu, then maximum."""

import pytest
import torch
from torch.nn.functional import cross_entropy, max_pool2d, relu

from flatfed import models


def as_written(name, model, x):
    """The forward pass in the papers' order of operations."""
    x = relu(model.conv1(x))
    if name != "cnn-last":
        x = max_pool2d(x, 2)
    x = max_pool2d(relu(model.conv2(x)), 2).flatten(1)
    return model.dense(x) if name == "cnn_tiny" else model.dense2(relu(model.dense1(x)))


DROPOUT = {"dropout1": 0.0, "dropout2": 0.0}
OPTIONS = {"cnn": {"pooling": "each", **DROPOUT}, "cnn-last": {"pooling": "last", **DROPOUT}}


@pytest.mark.parametrize("name", ["cnn", "cnn-last", "cnn_tiny"])
def test_outputs_and_gradients_are_the_same_bits(name):
    torch.manual_seed(0)
    model = models.build(name.removesuffix("-last"), (3, 32, 32), 10, OPTIONS.get(name, {}))
    x, labels = torch.randn(2, 3, 32, 32), torch.randint(0, 10, (2,))
    x[:, :, :8] = 0.0  # flat parts: windows in which all values are equal
    results = []
    for forward in (model, lambda x: as_written(name, model, x)):
        output = forward(x)
        results.append([output, *torch.autograd.grad(cross_entropy(output, labels), list(model.parameters()))])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*results, strict=True))
