"""The vision transformer: torchvision's, tensor by tensor, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import functional_call, grad, jvp
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.errors import ConfigError

SMALL = {"patch": 4, "depth": 2, "width": 48, "heads": 3, "mlp": 40}


def torchvisions(classes=5, side=16):
    from torchvision.models import VisionTransformer

    torch.manual_seed(3)
    return VisionTransformer(side, 4, num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=40, num_classes=classes)


def test_same_tensors_and_same_outputs_as_torchvisions():
    theirs, ours = torchvisions().double().eval(), models.build("vit_b32", (3, 16, 16), 5, SMALL).double()
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
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
    from torchvision.models import vit_b_32

    with torch.device("meta"):
        theirs, ours = vit_b_32(), models.build("vit_b32", (3, 224, 224), 1000, {})
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]


def test_initial_weights_follow_torchvisions_distributions_but_for_the_head():
    theirs = dict(torchvisions().named_parameters())
    model = models.build("vit_b32", (3, 16, 16), 5, SMALL)
    drawn = Layout.of(model).views(models.initial_weights(model, torch.Generator().manual_seed(1)))
    for name, value in drawn.items():
        if not name.startswith("heads"):
            other, count = theirs[name].detach(), value.numel()
            spread = other.std().item()
            assert value.std().item() == pytest.approx(spread, rel=9 / math.sqrt(count)), name
            assert value.mean().item() == pytest.approx(other.mean().item(), abs=6 * spread / math.sqrt(count)), name
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


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"vit_b32 takes images .* multiples of patch, 32 pixels, not 48 x 32"):
        models.check_shape("vit_b32", (3, 48, 32), {"patch": 32})
    with pytest.raises(ConfigError, match="multiples of patch, 3 pixels"):
        models.check_shape("vit_b32", (3, 8, 8), {"patch": 3})
    models.check_shape("vit_b32", (3, 8, 8), {"patch": 2})
    with pytest.raises(ConfigError, match="heads: 5 must divide width: 48"):
        models.build("vit_b32", (3, 16, 16), 5, {**SMALL, "heads": 5})
    with pytest.raises(ConfigError, match="depth: 0 must be at least 1"):
        models.check_options("vit_b32", {"depth": 0})
