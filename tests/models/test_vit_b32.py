"""The vision transformer is torchvision's, tensor by tensor."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import functional_call, grad, jvp
from torch.nn.functional import cross_entropy
from torchvision.models import VisionTransformer, vit_b_32

from flatfed import models
from flatfed.algorithms._layout import Layout

SMALL = {"patch": 4, "depth": 2, "width": 48, "heads": 3, "mlp": 40}


def both():
    """Return torchvision's transformer and ours, of one form."""
    torch.manual_seed(3)
    theirs = VisionTransformer(16, 4, num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=40, num_classes=5)
    return theirs, models.build("vit_b32", (3, 16, 16), 5, SMALL)


def tensors(model):
    return [(name, parameter.shape) for name, parameter in model.named_parameters()]


def test_same_tensors_and_same_outputs_as_torchvisions():
    theirs, ours = (model.double().eval() for model in both())
    assert tensors(ours) == tensors(theirs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    ours.load_state_dict(theirs.state_dict())
    x, y = torch.randn(3, 3, 16, 16, dtype=torch.float64), torch.tensor([0, 4, 2])
    assert (ours(x) - theirs(x)).abs().max() < 1e-12
    for model in (ours, theirs):
        cross_entropy(model(x), y).backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (mine.grad - other.grad).abs().max() < 1e-12, name


def test_full_size_has_the_tensors_of_vit_b_32():
    with torch.device("meta"):
        assert tensors(models.build("vit_b32", (3, 224, 224), 1000, {})) == tensors(vit_b_32())


def test_initial_weights_follow_torchvisions_distributions_but_for_the_head():
    theirs, model = both()
    drawn = Layout.of(model).views(models.initial_weights(model, torch.Generator().manual_seed(1)))
    for name, other in theirs.named_parameters():
        if not name.startswith("heads"):
            spread, count = other.std().item(), other.numel()
            assert drawn[name].std().item() == pytest.approx(spread, rel=9 / math.sqrt(count)), name
            difference = drawn[name].mean().item() - other.mean().item()
            assert abs(difference) <= 6 * spread / math.sqrt(count), name
    assert 0 < drawn["heads.head.weight"].abs().max() <= 48**-0.5


def test_products_with_the_hessian_exist():
    model = models.build("vit_b32", (1, 8, 8), 3, {**SMALL, "width": 6}).double().requires_grad_(False)
    layout = Layout.of(model)
    row = models.initial_weights(model, torch.Generator().manual_seed(1)).double()
    x, y, v = torch.randn(4, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 1]), torch.randn_like(row)

    def loss(row):
        return cross_entropy(functional_call(model, layout.views(row), (x,)), y)

    product = jvp(grad(loss), (row,), (v,))[1]
    step = 1e-5
    difference = (grad(loss)(row + step * v) - grad(loss)(row - step * v)) / (2 * step)
    assert (product - difference).norm() < 1e-5 * product.norm()
