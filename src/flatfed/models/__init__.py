"""The registry of models: one file for each model, whose name is its id. torch is imported only where it is needed.

A model's file defines ``build(shape, classes, **options) -> torch.nn.Module``. The module's ``forward(x, masks=None)``
takes (batch, C, H, W) images and returns (batch, classes) logits; its attribute ``dropout`` lists (shape of one
sample's mask, drop probability), and ``masks`` holds one scaled mask (batch, *shape) for each, so that both passes of
SAM share them; without masks nothing is dropped. Where the papers write relu, then maximum over a window, the maximum
comes first: both orders give the same bits, outputs and gradients, and the relu sees a quarter of the values. Weights
are drawn by :func:`initial_weights`, never from the global generator.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.algorithms._parameters import Choice, Number, Whole
from flatfed.errors import ConfigError, unknown

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
    version: int = 1  # increased when the model's numbers change (flatfed.engine.versions)


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
            "groups": Choice(2, (1, 2, 4, 8, 16, 32, 64), "groups of every GroupNorm: 2, or 32 with the cifar stem"),
        },
    ),
    "vgg11_gn": Card(32, {"groups": Choice(32, (1, 2, 4, 8, 16, 32, 64), "groups of every GroupNorm")}),
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


def names() -> list[str]:
    """Return the ids of all models, sorted."""
    return sorted(_CARDS)


def card(name: str, where: str = "model") -> Card:
    """Return what the configuration must know of model ``name``; ConfigError naming ``where`` if there is none."""
    if name not in _CARDS:
        raise ConfigError(unknown("model", name, names(), where))
    return _CARDS[name]


def check_options(name: str, options: dict[str, Any], where: str = "model") -> dict[str, Any]:
    """Return all options of model ``name``, defaults filled in; ConfigError for an unknown or impossible one."""
    known = card(name, where).options
    for option in options:
        if option not in known:
            raise ConfigError(unknown("option", option, known, f"{where}: {name}"))
    return {
        option: declared.check(options.get(option, declared.default), f"{where}: {name}: {option}")
        for option, declared in known.items()
    }


def check_shape(
    name: str, shape: tuple[int, int, int], where: str = "model", options: dict[str, Any] | None = None
) -> None:
    """Refuse images (C, H, W) that model ``name`` with ``options`` cannot take."""
    known = card(name, where)
    larger = (least for chosen, least in known.smallest_with.items() if chosen in (options or {}).items())
    smallest = max(known.smallest, *larger, 0)
    if min(shape[1:]) < smallest:
        raise ConfigError(
            f"{where}: {name} takes images of at least {smallest} x {smallest} pixels, not {shape[1]} x {shape[2]}"
        )
    if known.tile is not None:
        side = (options or {}).get(known.tile, known.options[known.tile].default)
        if shape[1] % side or shape[2] % side:
            raise ConfigError(
                f"{where}: {name} with {known.tile}: {side} takes images whose sides are multiples of {side} pixels, "
                f"not {shape[1]} x {shape[2]}"
            )


def build(name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any]) -> nn.Module:
    """Return model ``name`` for images of ``shape`` (C, H, W); its weights are for initial_weights to draw."""
    checked = check_options(name, options)
    check_shape(name, shape, options=checked)
    return importlib.import_module(f"{__name__}.{name}").build(shape, classes, **checked)


def initial_weights(module: nn.Module, generator: torch.Generator) -> torch.Tensor:
    """Return initial weights as one flat row (parameters,) in float32, drawn from ``generator`` on the CPU.

    torch's own rules: uniform within 1/sqrt(fan_in) for convolutions and dense layers, one and zero for norms. A model
    with rules of its own has a method ``initial(name, value, generator) -> bool`` that fills ``value``, or returns
    False to leave the parameter to the rules here.
    """
    import torch
    from torch import nn

    own = getattr(module, "initial", lambda *_: False)
    drawn = {}
    for prefix, layer in module.named_modules():
        for name, parameter in layer.named_parameters(recurse=False):
            full, value = f"{prefix}.{name}" if prefix else name, torch.empty(parameter.shape)
            drawn[full] = value.reshape(-1)
            if own(full, value, generator):
                continue
            if isinstance(layer, nn.GroupNorm | nn.LayerNorm):
                value.fill_(1.0 if name == "weight" else 0.0)
            elif isinstance(layer, nn.Conv2d | nn.Linear):
                bound = layer.weight[0].numel() ** -0.5
                value.uniform_(-bound, bound, generator=generator)
            else:
                raise ConfigError(f"no rule for the initial weights of {full} ({type(layer).__name__})")
    return torch.cat([drawn[name] for name, _ in module.named_parameters()])


def refuse_buffers(module: nn.Module) -> None:
    """Refuse a model with buffers: running statistics are no parameters of a row. ConfigError names the layer."""
    for prefix, layer in module.named_modules():
        if list(layer.buffers(recurse=False)) or "BatchNorm" in type(layer).__name__:
            raise ConfigError(
                f"model {type(module).__name__}: layer {prefix!r} ({type(layer).__name__}) keeps statistics of the "
                f"batches it saw; replace it by torch.nn.GroupNorm, as the papers do"
            )
