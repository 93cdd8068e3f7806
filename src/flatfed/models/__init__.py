"""The registry of models: one file for each model, whose name is its id. torch is imported only where it is needed.

``model_folders`` in config.yaml adds files of other folders (:mod:`flatfed.user_files`); ten ResNets are torchvision's.

A model's file defines ``build(shape, classes, **options) -> torch.nn.Module``. The module's ``forward(x, masks=None)``
takes (batch, C, H, W) images and returns (batch, classes) logits; its attribute ``dropout`` lists (shape of one
sample's mask, drop probability), and ``masks`` holds one scaled mask (batch, *shape) for each, so that both passes of
SAM share them; without masks, or without the attribute, nothing is dropped. Where the papers write relu, then maximum
over a window, the maximum comes first: both orders give the same bits, outputs and gradients, and the relu sees a
quarter of the values. Weights are drawn by :func:`initial_weights`, never from the global generator. A user's file
declares its options as defaults of ``build``; ``masks`` and ``dropout`` may be absent, and weights are those of the
constructor.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.algorithms._parameters import Choice, Number, Whole, checked
from flatfed.errors import ConfigError
from flatfed.user_files import UserFiles

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Card:
    """What the configuration must know of a model: the smallest image side (pixels) that it takes, and its options."""

    smallest: int
    options: dict[str, Number | Choice | Whole] = field(default_factory=dict)
    smallest_with: dict[tuple[str, str], int] = field(default_factory=dict)  # (option, value) that needs larger images
    tile: str | None = None  # option that image sides must be multiples of
    file: str | None = None  # the file that builds this model among others, by its name
    as_built: bool = False  # initial weights are those that the constructor draws
    version: int = 1  # increased when the model's numbers change (flatfed.engine.versions)


GROUPS = Choice(32, (1, 2, 4, 8, 16, 32, 64), "groups of every GroupNorm")

#: torchvision's classifiers that take another layer in place of BatchNorm and draw no random numbers.
TORCHVISION = (
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2"),
    *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
)

_CARDS = {
    "cnn": Card(
        8,
        {
            "pooling": Choice("last", ("last", "each"), "pool after the last convolution (Reddi et al.) or after each"),
            "dropout1": Number(0.25, "dropout before the dense layer", minimum=0, exclusive_maximum=1),
            "dropout2": Number(0.5, "dropout after the dense layer", minimum=0, exclusive_maximum=1),
        },
        {("pooling", "each"): 10},
    ),
    "cnn_tiny": Card(4),
    "resnet18_gn": Card(
        8,
        {
            "stem": Choice("imagenet", ("imagenet", "cifar"), "7x7 convolution and pooling, or 3x3 without pooling"),
            "groups": Choice(2, GROUPS.options, "groups of every GroupNorm: 2, or 32 with the cifar stem"),
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
    **dict.fromkeys(TORCHVISION, Card(8, {"groups": GROUPS}, file="torchvision_resnet", as_built=True)),
}

#: FlatFed's models, and those of the user's folders.
FILES = UserFiles("model", __name__, _CARDS)
look_in, names, own_files = FILES.look_in, FILES.names, FILES.own_files


def card(name: str, where: str = "model") -> Card:
    """Return what the configuration must know of model ``name``; ConfigError naming ``where`` if there is none."""
    if name in _CARDS:
        return _CARDS[name]
    if own_files(name):
        return _own_card(name, tuple(__path__))
    raise ConfigError(FILES.unknown(name, names(), where))


@functools.cache
def _own_card(name: str, folders: tuple[str, ...]) -> Card:
    """Return the card of a user's model in one of ``folders``; ConfigError where its ``build`` declares no options."""
    module = FILES.load(name)
    build = getattr(module, "build", None)
    parameters = inspect.signature(build).parameters if inspect.isfunction(build) else {}
    options = {option: parameter.default for option, parameter in parameters.items()}
    if [options.pop(first, None) for first in ("shape", "classes")] != [inspect.Parameter.empty] * 2:
        raise ConfigError(f"{module.__file__}: defines no function build(shape, classes, ...) that returns a model")
    for option, declared in options.items():
        if not isinstance(declared, Number | Choice | Whole):
            wanted = f'a Number, Choice or Whole of flatfed.models, as {option}=Whole(64, "what it is", minimum=1)'
            raise ConfigError(f"{module.__file__}: build: option {option!r} is not declared; wanted: {wanted}")
    return Card(1, options, as_built=True)


def check_options(name: str, options: dict[str, Any], where: str = "model") -> dict[str, Any]:
    """Return all options of model ``name``, defaults filled in; ConfigError for an unknown or impossible one."""
    return checked(card(name, where).options, options, "option", f"{where}: {name}")


def check_shape(
    name: str, shape: tuple[int, int, int], where: str = "model", options: dict[str, Any] | None = None
) -> None:
    """Refuse images (C, H, W) that model ``name`` with ``options`` cannot take."""
    known = card(name, where)
    options = {**{option: declared.default for option, declared in known.options.items()}, **(options or {})}
    smallest = max([known.smallest, *(known.smallest_with.get(chosen, 0) for chosen in options.items())])
    side = options[known.tile] if known.tile else 1
    wanted = f"of at least {smallest} x {smallest} pixels" if min(shape[1:]) < smallest else ""
    if not wanted and (shape[1] % side or shape[2] % side):
        wanted = f"whose sides are multiples of {known.tile}, {side} pixels"
    if wanted:
        raise ConfigError(f"{where}: {name} takes images {wanted}, not {shape[1]} x {shape[2]}")


def build(name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any]) -> nn.Module:
    """Return model ``name`` for images of ``shape`` (C, H, W); its weights are for initial_weights to draw."""
    checked = check_options(name, options)
    check_shape(name, shape, options=checked)
    known = card(name)
    several = {"name": name} if known.file else {}
    file = importlib.import_module(f"{__name__}.{known.file or name}")
    module = file.build(shape=shape, classes=classes, **checked, **several)
    if not hasattr(module, "named_modules"):
        raise ConfigError(f"{file.__file__}: build returns a {type(module).__name__}, not a torch.nn.Module")
    module.as_built, module.dropout = known.as_built, getattr(module, "dropout", [])
    return module


def check_runs(name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any], where: str) -> None:
    """Refuse a user's model that cannot be built, or gives no logits (batch, ``classes``), for images (C, H, W).

    Weights and images have no content, so that a large model takes no memory. Nothing is checked where torch is not
    installed.
    """
    if not own_files(name) or importlib.util.find_spec("torch") is None:
        return
    import torch

    try:
        with torch.device("meta"), torch.no_grad():
            module = build(name, shape, classes, options)
            refuse_layers(module)
            size = tuple(module(torch.zeros(2, *shape)).shape)
            if size != (2, classes):
                raise ConfigError(f"its output for 2 images has shape {size}, not (2, {classes})")
    except Exception as error:  # the file is a user's, and may do anything
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        what = f"{where}: {name} ({own_files(name)[0]}) for images {shape} and {classes} classes"
        raise ConfigError(f"{what}: {kind}{' '.join(str(error).split())}") from error


def initial_weights(module: nn.Module, generator: torch.Generator) -> torch.Tensor:
    """Return initial weights as one flat row (parameters,) in float32, drawn from ``generator`` on the CPU.

    torch's own rules: uniform within 1/sqrt(fan_in) for convolutions and dense layers, one and zero for norms. A model
    with rules of its own has a method ``initial(name, value, generator) -> bool`` that fills ``value``, or returns
    False to leave the parameter to the rules here. Of a user's or torchvision's, the weights that it was built with.
    """
    import torch
    from torch import nn

    if getattr(module, "as_built", False):
        return torch.cat([parameter.detach().reshape(-1).float() for parameter in module.parameters()])
    own = getattr(module, "initial", lambda *_: False)
    drawn = []
    for name, parameter in module.named_parameters():
        layer, value = module.get_submodule(name.rpartition(".")[0]), torch.empty(parameter.shape)
        drawn.append(value.reshape(-1))
        if own(name, value, generator):
            continue
        if isinstance(layer, nn.GroupNorm | nn.LayerNorm):
            value.fill_(1.0 if name.endswith("weight") else 0.0)
        elif isinstance(layer, nn.Conv2d | nn.Linear):
            bound = layer.weight[0].numel() ** -0.5
            value.uniform_(-bound, bound, generator=generator)
        else:
            raise ConfigError(f"no rule for the initial weights of {name} ({type(layer).__name__})")
    return torch.cat(drawn)


def refuse_layers(module: nn.Module) -> None:
    """Refuse a model with torch's dropout, or with buffers, which a row does not hold. ConfigError names the layer."""
    from torch.nn.modules.dropout import _DropoutNd

    what = f"model {type(module).__name__}"
    for prefix, layer in module.named_modules():
        where = f"{what}: layer {prefix!r} ({type(layer).__name__})"
        if isinstance(layer, _DropoutNd):
            wanted = "in `dropout`, list (shape, probability) of each of the masks of forward(x, masks=None)"
            raise ConfigError(f"{where} draws from torch's own generator, not from the run's seed; {wanted}")
        if list(layer.buffers(recurse=False)) or "BatchNorm" in type(layer).__name__:
            wanted = "replace BatchNorm by torch.nn.GroupNorm, as the papers do"
            raise ConfigError(f"{where} keeps buffers, such as statistics of the batches it saw; {wanted}")
    if not isinstance(sites := getattr(module, "dropout", []), list):
        wanted = "a list of (shape, probability), one for each of the masks of forward(x, masks=None)"
        raise ConfigError(f"{what}: its attribute `dropout` is {sites!r}; wanted: {wanted}")
