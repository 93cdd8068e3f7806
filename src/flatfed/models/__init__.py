"""The registry of models, one file each, whose name is the id.

A model's file defines ``build(shape, classes, **options) -> torch.nn.Module``. The module's ``forward(x, masks=None)``
returns logits (batch, classes) of images (batch, C, H, W). Its attribute ``dropout`` lists (shape of one image's mask,
drop probability); ``masks`` has a scaled mask (batch, *shape) for each, which both passes of SAM share.

``folders`` in config.yaml adds users' files (:mod:`flatfed.user_files`). They declare options as defaults of
``build``; their constructor draws the weights; ``masks`` and ``dropout`` may be absent.

FlatFed's models pool before the relu: the same bits and gradients as in the papers' order, but faster.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.algorithms._parameters import Choice, Number, Whole, check_values
from flatfed.errors import ConfigError, unknown
from flatfed.user_files import REMEDY, UserFiles

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Card:
    """Properties of a model: the smallest side of its images, in pixels, and its options."""

    smallest: int
    options: dict[str, Number | Choice | Whole] = field(default_factory=dict)
    smallest_with: dict[tuple[str, str], int] = field(default_factory=dict)  # (option, value) -> smallest side
    tile: str | None = None  # the option that must divide the sides
    as_built: bool = False  # the constructor draws the initial weights
    batch_norm: bool = False  # it has layers of BatchNorm
    version: int = 1  # increase it when the numbers change (flatfed.runs.versions)


GROUPS = Choice(32, (1, 2, 4, 8, 16, 32, 64), "groups of every GroupNorm")

_CARDS = {
    "cnn": Card(
        8,
        {
            "pooling": Choice("last", ("last", "each"), "pool after the last convolution or each"),
            "dropout1": Number(0.25, "dropout before the dense layer", minimum=0, exclusive_maximum=1),
            "dropout2": Number(0.5, "dropout after the dense layer", minimum=0, exclusive_maximum=1),
        },
        {("pooling", "each"): 10},
    ),
    "cnn_5x5": Card(4),
    "cnn_tiny": Card(4),
    "cnn_tiny_bn": Card(4, batch_norm=True),
    "resnet18_bn": Card(8, batch_norm=True),
    "resnet18_gn": Card(
        8,
        {
            "stem": Choice("imagenet", ("imagenet", "cifar"), "7x7 convolution with pooling, or 3x3 without"),
            "groups": Choice(2, GROUPS.options, "groups of every GroupNorm"),
        },
    ),
    "vgg11_gn": Card(32, {"groups": GROUPS}),
    "vit_b32": Card(
        1,
        {
            "patch": Whole(32, "side of a patch, in pixels", minimum=1),
            "depth": Whole(12, "blocks", minimum=1),
            "width": Whole(768, "length of a token", minimum=1),
            "heads": Whole(12, "attention heads, a divisor of width", minimum=1),
            "mlp": Whole(3072, "width between the two dense layers of a block", minimum=1),
        },
        tile="patch",
    ),
}

#: Other shipped files of this folder.
PARTS = ("batch_norm", "pretrained", "user_model")

FILES = UserFiles("model", __name__, _CARDS, PARTS)
look_in, names, own_file = FILES.look_in, FILES.names, FILES.own_file


def card(name: str, where: str = "model") -> Card:
    """Return the card of model ``name``; ConfigError naming ``where`` if it does not exist."""
    if name in _CARDS:
        return _CARDS[name]
    if own_file(name):
        return _own_card(name, tuple(__path__))
    raise ConfigError(f"{unknown('model', name, names(), where)}; {REMEDY}")


def has_statistics(name: str) -> bool:
    """Return whether model ``name`` has layers of BatchNorm, or may have: a user's."""
    return bool(own_file(name)) or card(name).batch_norm


@functools.cache
def _own_card(name: str, folders: tuple[str, ...]) -> Card:
    """Return the card of a user's model; ``folders`` are the key of the cache."""
    module = FILES.load(name)
    build = getattr(module, "build", None)
    parameters = inspect.signature(build).parameters if inspect.isfunction(build) else {}
    options = {option: parameter.default for option, parameter in parameters.items()}
    if [options.pop(key, None) for key in ("shape", "classes")] != [inspect.Parameter.empty] * 2:
        raise ConfigError(f"{module.__file__}: defines no function build(shape, classes, ...) that returns a model")
    for option, declared in options.items():
        if not isinstance(declared, Number | Choice | Whole):
            expected = f'a Number, Choice or Whole of flatfed.models, as {option}=Whole(64, "hidden units", minimum=1)'
            raise ConfigError(f"{module.__file__}: build: option {option!r} is not declared; expected {expected}")
    return Card(1, options, as_built=True)


def check_options(name: str, options: dict[str, Any], where: str = "model") -> dict[str, Any]:
    """Return all options of model ``name`` with defaults; ConfigError for an unknown or wrong one."""
    return check_values(card(name, where).options, options, "option", f"{where}: {name}")


def check_shape(name: str, shape: tuple[int, int, int], options: dict[str, Any], where: str = "model") -> None:
    """Refuse images (C, H, W) that model ``name`` with all its ``options`` does not accept."""
    properties = card(name, where)
    smallest = max([properties.smallest, *(properties.smallest_with.get(choice, 0) for choice in options.items())])
    side = options[properties.tile] if properties.tile else 1
    expected = f"of at least {smallest} x {smallest} pixels" if min(shape[1:]) < smallest else ""
    if not expected and (shape[1] % side or shape[2] % side):
        expected = f"whose sides are multiples of {properties.tile}, {side} pixels"
    if expected:
        raise ConfigError(f"{where}: {name} takes images {expected}, not {shape[1]} x {shape[2]}")


def build(name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any]) -> nn.Module:
    """Return model ``name`` for images of ``shape`` (C, H, W), before :func:`initial_weights`."""
    options, properties = check_options(name, options), card(name)
    check_shape(name, shape, options)
    file = FILES.load(name)
    module = file.build(shape=shape, classes=classes, **options)
    if not hasattr(module, "named_modules"):
        raise ConfigError(f"{file.__file__}: build returns a {type(module).__name__}, not a torch.nn.Module")
    module.as_built, module.dropout = properties.as_built, getattr(module, "dropout", [])
    if own_file(name):
        from flatfed.models import user_model

        user_model.prepare(module, shape)
    return module


def check_runs(name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any], where: str) -> None:
    """Refuse a user's model that a run would not train as written (:func:`flatfed.models.user_model.check`)."""
    if not own_file(name) or importlib.util.find_spec("torch") is None:
        return
    try:
        _check_once(name, shape, classes, tuple(check_options(name, options).items()), tuple(__path__))
    except Exception as error:  # a user's file can raise anything
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        model = f"{where}: {name} ({own_file(name)}) for images {shape} and {classes} classes"
        raise ConfigError(f"{model}: {kind}{' '.join(str(error).split())}") from error


@functools.cache
def _check_once(name: str, shape: tuple[int, int, int], classes: int, options: tuple, folders: tuple[str, ...]) -> None:
    """Check a user's model; ``folders`` are part of the cache's key."""
    from flatfed.models import user_model

    user_model.check(functools.partial(build, name, shape, classes, dict(options)), shape, classes)


def initial_weights(module: nn.Module, generator: torch.Generator) -> torch.Tensor:
    """Return the initial weights that train as a flat row (parameters,) float32, drawn from ``generator`` on the CPU.

    The rule is torch's: uniform within 1/sqrt(fan_in) for convolutions and dense layers. A model's method
    ``initial(name, value, generator) -> bool`` may fill ``value`` by another rule. Models ``as_built`` keep theirs.
    """
    import torch
    from torch import nn

    if getattr(module, "as_built", False):
        trained = [parameter.detach() for parameter in module.parameters() if parameter.requires_grad]
        return torch.cat([parameter.reshape(-1).float() for parameter in trained])
    model_rule = getattr(module, "initial", lambda *_: False)
    drawn = []
    for name, parameter in module.named_parameters():
        layer, value = module.get_submodule(name.rpartition(".")[0]), torch.empty(parameter.shape)
        drawn.append(value.reshape(-1))
        if model_rule(name, value, generator):
            continue
        if isinstance(layer, nn.GroupNorm | nn.LayerNorm | nn.BatchNorm2d):
            value.fill_(1.0 if name.endswith("weight") else 0.0)
        elif isinstance(layer, nn.Conv2d | nn.Linear):
            bound = layer.weight[0].numel() ** -0.5
            value.uniform_(-bound, bound, generator=generator)
        else:
            raise ConfigError(f"no rule for the initial weights of {name} ({type(layer).__name__})")
    return torch.cat(drawn)
