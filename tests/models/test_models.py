"""Models: torchvision's ResNet and transformer, initial weights, dropout masks, what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.models import VisionTransformer, resnet18, vit_b_32

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.errors import ConfigError
from flatfed.models import user_model

CIFAR = (3, 32, 32)
SMALL = {"patch": 4, "depth": 2, "width": 12, "heads": 3, "mlp": 20}


def drawn(model):
    """Return the initial weights of ``model`` by tensor."""
    return Layout.of(model).views(models.initial_weights(model, torch.Generator().manual_seed(1)))


def tensors(model):
    return [(name, parameter.shape) for name, parameter in model.named_parameters()]


def with_cifar_stem(theirs):
    """Return torchvision's ``theirs`` with our stem for CIFAR, whose convolutions have torch's initial weights."""
    theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    for module in theirs.modules():
        if isinstance(module, nn.Conv2d):
            module.reset_parameters()
    return theirs


def resnet(stem, groups):
    """Return our ResNet-18 with GroupNorm and torchvision's."""
    theirs = resnet18(norm_layer=lambda channels: nn.GroupNorm(groups, channels), num_classes=10)
    theirs = with_cifar_stem(theirs) if stem == "cifar" else theirs
    return models.build("resnet18_gn", CIFAR, 10, {"stem": stem, "groups": groups}), theirs


def batch_normed():
    """Return our ResNet-18 with BatchNorm and torchvision's."""
    return models.build("resnet18_bn", CIFAR, 10, {}), with_cifar_stem(resnet18(num_classes=10))


def transformer():
    """Return our vision transformer and torchvision's."""
    theirs = VisionTransformer(32, 4, num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=40, num_classes=10)
    return models.build("vit_b32", CIFAR, 10, {**SMALL, "width": 48, "mlp": 40}), theirs


PAIRS = {
    "imagenet": lambda: resnet("imagenet", 2),
    "cifar": lambda: resnet("cifar", 32),
    "batch_normed": batch_normed,
    "transformer": transformer,
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_model_is_torchvisions_tensor_by_tensor(pair):
    """Also the distributions of the initial weights, except for the transformer's head."""
    torch.manual_seed(3)
    ours, theirs = pair()
    assert tensors(ours) == tensors(theirs)
    initial = drawn(ours)
    for name, weight in theirs.named_parameters():
        if not name.startswith("heads"):
            spread, bound = weight.std().item(), 9 / math.sqrt(weight.numel())
            assert initial[name].std().item() == pytest.approx(spread, rel=bound, abs=1e-6), name
            assert abs(initial[name].mean() - weight.mean()) <= bound * spread, name
    if pair is transformer:
        assert 0 < initial["heads.head.weight"].abs().max() <= 48**-0.5
        with torch.no_grad():
            theirs.heads.head.weight.normal_()
    ours.load_state_dict(theirs.state_dict())
    ours, theirs = ours.double(), theirs.double()
    x, y = torch.randn(2, *CIFAR, dtype=torch.float64), torch.tensor([0, 4])
    assert (ours(x) - theirs(x)).abs().max() < 1e-12
    for model in (ours, theirs):
        cross_entropy(model(x), y).backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (mine.grad - other.grad).abs().max() < 1e-12, name
    for (name, mine), other in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        assert (mine - other).abs().max() < 1e-12, name


def test_the_default_transformer_has_the_tensors_of_vit_b_32():
    with torch.device("meta"):
        assert tensors(models.build("vit_b32", (3, 224, 224), 1000, {})) == tensors(vit_b_32())


@pytest.mark.parametrize("height", [32, 64])
def test_vgg_is_configuration_a_with_group_norm(height):
    """Written out layer by layer, after Simonyan and Zisserman's table 1; weights go over in order."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if outputs == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, 1, 1), nn.GroupNorm(32, outputs), nn.ReLU()]
            inputs = outputs
    plain = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * height // 32, 10)).double()
    ours = models.build("vgg11_gn", (3, height, 32), 10, {}).double()
    with torch.no_grad():
        for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
            theirs.copy_(mine)
        x = torch.randn(2, 3, height, 32, dtype=torch.float64)
        assert (ours(x) - plain(x)).abs().max() < 1e-12


def test_initial_weights_of_vgg_follow_torchvisions_distributions():
    for name, value in drawn(models.build("vgg11_gn", CIFAR, 10, {})).items():
        if value.dim() == 1:
            assert (value == (0 if name.endswith("bias") else 1)).all(), name
        else:
            expected = 0.01 if value.dim() == 2 else math.sqrt(2 / (value.shape[0] * 9))
            assert value.std().item() == pytest.approx(expected, rel=6 / math.sqrt(value.numel())), name


def test_dropout_takes_its_masks_from_outside():
    model = models.build("cnn", (1, 12, 12), 3, {})
    assert [rate for _, rate in model.dropout] == [0.25, 0.5]
    x = torch.randn(5, 1, 12, 12)
    ones = [torch.ones(5, *shape) for shape, _ in model.dropout]
    none = [torch.ones(5, *model.dropout[0][0]), torch.zeros(5, 128)]
    assert torch.equal(model(x), model(x, ones))
    assert torch.allclose(model(x, none), model.dense2.bias.expand(5, -1))
    partly = models.build("cnn", (1, 12, 12), 3, {"dropout1": 0.0})
    assert [shape for shape, _ in partly.dropout] == [(128,)]
    assert torch.allclose(partly(x, none[1:]), partly.dense2.bias.expand(5, -1))


def test_statistics_of_several_processes_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"layer '1' \(SyncBatchNorm\).*use torch.nn.BatchNorm2d"):
        user_model.refuse_layers(nn.Sequential(nn.Conv2d(1, 2, 3), nn.SyncBatchNorm(2)))
    user_model.refuse_layers(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="heads: 5 must divide width: 12"):
        models.build("vit_b32", (3, 16, 16), 10, {**SMALL, "heads": 5})


TINY = [("cnn_tiny", 4, {}), ("cnn_tiny_bn", 4, {})]
SMALLEST = [("cnn", 8, {}), ("cnn", 10, {"pooling": "each"}), *TINY, ("resnet18_gn", 8, {})]


@pytest.mark.parametrize(("name", "side", "options"), [*SMALLEST, ("resnet18_bn", 8, {}), ("vgg11_gn", 32, {})])
def test_the_smallest_images_allowed_really_pass(name, side, options):
    models.check_shape(name, (1, side, side), options)
    with pytest.raises(ConfigError, match=f"takes images of at least {side} x {side} pixels"):
        models.check_shape(name, (1, side, side - 1), options)
    with torch.device("meta"):
        assert models.build(name, (1, side, side), 3, options)(torch.zeros(2, 1, side, side)).shape == (2, 3)
