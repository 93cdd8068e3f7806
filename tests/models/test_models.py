"""Models: sizes, torchvision's ResNet tensor by tensor, initial weights, dropout masks, what is refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.errors import ConfigError
from repository import SRC
from samples import sampled

CIFAR = (3, 32, 32)
SMALL = {"patch": 4, "depth": 2, "width": 12, "heads": 3, "mlp": 20}
STEM = {"stem": "cifar", "groups": 32}


def drawn(model, seed=1):
    """Return the initial weights of ``model`` by tensor."""
    return Layout.of(model).views(models.initial_weights(model, torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "size"),
    [
        ("resnet18_gn", CIFAR, 10, {}, 11_181_642),
        ("resnet18_gn", CIFAR, 100, {}, 11_227_812),
        ("resnet18_gn", CIFAR, 10, STEM, 11_173_962),
        ("resnet18_gn", CIFAR, 100, STEM, 11_220_132),
        ("cnn", (1, 28, 28), 62, {}, 1_206_590),
        ("cnn_tiny", (1, 8, 8), 10, {}, 1_898),
        ("vgg11_gn", CIFAR, 10, {}, 9_231_114),
        ("vgg11_gn", CIFAR, 100, {}, 9_277_284),
        ("vit_b32", (3, 224, 224), 65, {}, 87_505_217),
    ],
)
def test_parameter_counts(name, shape, classes, options, size):
    with torch.device("meta"):
        model = models.build(name, shape, classes, options)
    assert sum(parameter.numel() for parameter in model.parameters()) == size


@pytest.mark.parametrize(("stem", "groups"), [("imagenet", 2), ("cifar", 32)])
def test_resnet_is_torchvisions_tensor_by_tensor(stem, groups):
    from torchvision.models import resnet18

    torch.manual_seed(0)
    theirs = resnet18(norm_layer=lambda channels: nn.GroupNorm(groups, channels), num_classes=10)
    if stem == "cifar":
        theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
        for module in theirs.modules():
            if isinstance(module, nn.Conv2d):
                module.reset_parameters()
    ours = models.build("resnet18_gn", CIFAR, 10, {"stem": stem, "groups": groups})
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
    initial = drawn(ours)
    for name, weight in theirs.named_parameters():
        spread, count = weight.std().item(), weight.numel()
        assert initial[name].std().item() == pytest.approx(spread, rel=6 / math.sqrt(count), abs=1e-6), name
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, *CIFAR, dtype=torch.float64)
    with torch.no_grad():
        assert (ours.double()(x) - theirs.double().eval()(x)).abs().max() < 1e-12


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


def test_initial_weights_are_keyed_and_leave_the_global_generator_alone():
    model = models.build("cnn", (3, 16, 16), 5, {})
    before = torch.random.get_rng_state()
    a, b, c = (drawn(model, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    dense, conv = a["dense1.weight"], a["conv2.weight"]
    assert torch.equal(dense, b["dense1.weight"]) and not torch.equal(dense, c["dense1.weight"])
    assert dense.abs().max() <= dense.shape[1] ** -0.5
    assert conv.abs().max() == pytest.approx((32 * 9) ** -0.5, rel=1e-2)


OURS = sorted(set(models.names()) - set(models.TORCHVISION))


@pytest.mark.parametrize("name", sampled(OURS, set(OURS) - {"vgg11_gn", "resnet18_gn"}))
def test_vmapped_gradients_equal_a_loop(name):
    side = max(16, models.card(name).smallest)
    model = models.build(name, (3, side, side), 4, SMALL if name == "vit_b32" else {}).double().requires_grad_(False)
    layout = Layout.of(model)
    rows = torch.stack([models.initial_weights(model, torch.Generator().manual_seed(k)) for k in (1, 2)]).double()
    x, y = torch.randn(2, 3, 3, side, side, dtype=torch.float64), torch.tensor([[0, 1, 2], [3, 3, 0]])

    def loss(row, images, labels):
        return cross_entropy(functional_call(model, layout.views(row), (images,)), labels)

    stacked = vmap(grad(loss))(rows, x, y)
    for k in range(2):
        assert (stacked[k] - grad(loss)(rows[k], x[k], y[k])).abs().max() < 1e-12


def test_dropout_takes_its_masks_from_outside():
    model = models.build("cnn", (1, 12, 12), 3, {}).requires_grad_(False)
    assert [rate for _, rate in model.dropout] == [0.25, 0.5]
    x = torch.randn(5, 1, 12, 12)
    ones = [torch.ones(5, *shape) for shape, _ in model.dropout]
    none = [torch.ones(5, *model.dropout[0][0]), torch.zeros(5, 128)]
    assert torch.equal(model(x), model(x, ones))
    assert torch.allclose(model(x, none), model.dense2.bias.expand(5, -1))
    partly = models.build("cnn", (1, 12, 12), 3, {"dropout1": 0.0})
    assert [shape for shape, _ in partly.dropout] == [(128,)]
    assert torch.allclose(partly(x, none[1:]), partly.dense2.bias.expand(5, -1))


@pytest.mark.parametrize("kind", [nn.BatchNorm2d, nn.SyncBatchNorm])
def test_models_with_batch_statistics_are_refused_by_name(kind):
    with pytest.raises(ConfigError, match=rf"layer '1' \({kind.__name__}\).*GroupNorm"):
        models.refuse_layers(nn.Sequential(nn.Conv2d(1, 2, 3), kind(2, track_running_stats=False)))
    models.refuse_layers(nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(2, 2)))


@pytest.mark.parametrize(
    ("name", "side", "options", "message"),
    [
        ("resnet18_g", 32, {}, "unknown model 'resnet18_g'; did you mean 'resnet18_gn'"),
        ("cnn", 32, {"poling": "each"}, "unknown option 'poling'; did you mean 'pooling'"),
        ("resnet18_gn", 32, {"groups": 3}, "groups: unknown value 3"),
        ("cnn", 9, {"pooling": "each"}, "at least 10 x 10 pixels, not 9 x 9"),
        ("vit_b32", 8, {"patch": 3}, "vit_b32 takes images .* multiples of patch, 3 pixels, not 8 x 8"),
        ("vit_b32", 16, {**SMALL, "heads": 5}, "heads: 5 must divide width: 12"),
        ("vit_b32", 16, {**SMALL, "depth": 0}, "depth: 0 must be at least 1"),
    ],
)
def test_bad_names_options_and_shapes_are_refused(name, side, options, message):
    with pytest.raises(ConfigError, match=message):
        models.build(name, (3, side, side), 10, options)


SMALLEST = [("cnn", 8, {}), ("cnn", 10, {"pooling": "each"}), ("cnn_tiny", 4, {}), ("resnet18_gn", 8, {})]


@pytest.mark.parametrize(("name", "side", "options"), [*SMALLEST, ("vgg11_gn", 32, {})])
def test_the_smallest_images_allowed_really_pass(name, side, options):
    models.check_shape(name, (1, side, side), options)
    with pytest.raises(ConfigError, match=f"takes images of at least {side} x {side} pixels"):
        models.check_shape(name, (1, side, side - 1), options)
    with torch.device("meta"):
        assert models.build(name, (1, side, side), 3, options)(torch.zeros(2, 1, side, side)).shape == (2, 3)


def test_the_registry_imports_no_torch():
    code = "import sys; from flatfed import models; models.check_options('cnn', {}); sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
