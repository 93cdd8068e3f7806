"""Taking a maximum before the relu, as the models do, gives the bits of the papers' order: relu, then maximum."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, max_pool2d, relu

from flatfed import models


def as_written(name, model, x):
    """The forward pass in the papers' order of operations."""
    if name == "vgg11_gn":
        for stage in model.stages:
            for layer in stage:
                x = relu(layer(x)) if isinstance(layer, nn.GroupNorm) else layer(x)
            x = max_pool2d(x, 2)
        return model.classifier(x.flatten(1))
    if name == "resnet18_gn":
        x = max_pool2d(relu(model.bn1(model.conv1(x))), 3, 2, 1)
        x = model.layer4(model.layer3(model.layer2(model.layer1(x))))
        return model.fc(x.mean((2, 3)))
    x = relu(model.conv1(x))
    if name != "cnn-last":
        x = max_pool2d(x, 2)
    x = max_pool2d(relu(model.conv2(x)), 2).flatten(1)
    return model.dense(x) if name == "cnn_tiny" else model.dense2(relu(model.dense1(x)))


DROPOUT = {"dropout1": 0.0, "dropout2": 0.0}
OPTIONS = {"cnn": {"pooling": "each", **DROPOUT}, "cnn-last": {"pooling": "last", **DROPOUT}}


@pytest.mark.parametrize("name", ["cnn", "cnn-last", "cnn_tiny", "vgg11_gn", "resnet18_gn"])
def test_outputs_and_gradients_are_the_same_bits(name):
    torch.manual_seed(0)
    model = models.build(name.removesuffix("-last"), (3, 32, 32), 10, OPTIONS.get(name, {}))
    x, labels = torch.randn(2, 3, 32, 32), torch.randint(0, 10, (2,))
    x[:, :, :8] = 0.0  # flat parts: windows in which all values are equal
    results = []
    for forward in (model, lambda x: as_written(name, model, x)):
        output = forward(x)
        results.append([output, *torch.autograd.grad(cross_entropy(output, labels), list(model.parameters()))])
    same = torch.equal if name != "resnet18_gn" else torch.allclose  # whose mean over the image is written otherwise
    assert all(same(ours, theirs) for ours, theirs in zip(*results, strict=True))
