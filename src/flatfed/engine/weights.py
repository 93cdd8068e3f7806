"""A run's model and its initial weights."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from flatfed import models
from flatfed.algorithms._layout import FRONT, Layout
from flatfed.data.streams import torch_seed
from flatfed.models import batch_norm, pretrained, user_model
from flatfed.runs.run_config import RunConfig

PLACE = FRONT.partition(".")[0]  # name of the module in front of a model


def build(config: RunConfig) -> nn.Module:
    """Return a run's model, built under the seed's key; so are its frozen tensors.

    :raises ConfigError: a user's model is refused.
    """
    arguments = config.model.name, tuple(config.dataset.shape), config.dataset.classes, config.model.options
    models.check_runs(*arguments, "model")
    with user_model.seeded(torch_seed(config.seed, "weights")):
        return models.build(*arguments)


def initial_model(config: RunConfig, pretrained_file: str | os.PathLike[str] | None = None) -> tuple[nn.Module, Tensor]:
    """Return a run's model and its initial weights (parameters,), float32, drawn with the seed's key.

    ``pretrained_file``: initial weights to use instead.
    """
    model = build(config)
    initial = models.initial_weights(model, torch.Generator().manual_seed(torch_seed(config.seed, "weights")))
    if pretrained_file is not None:
        initial = pretrained.load(model, initial, pretrained_file)
    return model, initial


def pass_images(model: nn.Module, tensors: dict[str, Tensor], inputs: tuple[Any, ...]) -> Tensor:
    """Return the output of ``model`` on ``inputs`` with ``tensors`` by name in place of its own, which it keeps."""
    tables = [table for module in model.modules() for table in (module._parameters, module._buffers) if table]
    before = [table.copy() for table in tables]
    try:
        return functional_call(model, tensors, inputs)
    finally:  # torch (2.11 to 2.14) leaves its arguments in a module that the model registers under two names
        for table, values in zip(tables, before, strict=True):
            table.update(values)


def fixed(model: nn.Module) -> dict[str, Tensor]:
    """Return frozen parameters and buffers of real numbers that no pass of ``model`` changes, to change in place."""
    named, changing = (*model.named_parameters(), *model.named_buffers()), batch_norm.buffer_layout(model).names
    return {
        name: value.detach()
        for name, value in named
        if not value.requires_grad and value.is_floating_point() and value.numel() and name not in changing
    }


class Front(nn.Module):
    """An algorithm's ``transform`` of the images in front of a model, and its ``size`` parameters ``values``."""

    def __init__(self, transform: Callable[[Tensor, Tensor], Tensor], size: int):
        super().__init__()
        self.transform, self.values = transform, nn.Parameter(torch.zeros(size))

    def forward(self, images: Tensor) -> Tensor:
        return self.transform(images, self.values)


def _transformed(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return model.get_submodule(PLACE)(inputs[0]), *inputs[1:]


class Weights:
    """``model`` in training mode, ``layout`` of its rows, and ``initial`` (size,), the first row.

    ``evaluated``: the model in evaluation mode, with the same tensors. ``full``: layout of all parameters. ``buffers``
    (1, size): those of BatchNorm in both models, of the server.
    """

    def __init__(self, model: nn.Module, initial: Tensor, device: torch.device, dtype: torch.dtype):
        self.layout = self.full = Layout.of(model)
        self.model, self.initial = model.to(device, dtype), initial.to(device, dtype)
        self.model.train()
        if FRONT in self.layout.names:
            self.model.register_forward_pre_hook(_transformed, prepend=True)
        self.buffers = batch_norm.join_buffers(self.model, self.initial)
        self.buffer_layout = batch_norm.buffer_layout(self.model)
        shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
        self.evaluated = copy.deepcopy(self.model, shared)
        self.evaluated.eval()

    @property
    def parameters(self) -> int:
        """Number of the model's parameters that train."""
        return self.count({FRONT})

    def count(self, excluded: Iterable[str]) -> int:
        """Return the number of parameters that train, without those of the names ``excluded``."""
        return sum(size for name, size in zip(self.full.names, self.full.sizes, strict=True) if name not in excluded)

    def positions(self, patterns: tuple[str, ...]) -> Tensor | None:
        """Return the coordinates (n,) of the parameters that ``patterns`` name, None without patterns."""
        slices, device = self.layout.slices(), self.initial.device
        parts = [torch.arange(part.start, part.stop) for part in map(slices.get, self.layout.matching(patterns))]
        return torch.cat(parts).to(device) if parts else None

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """Return the model's state dict with the flat ``row`` (size,); tied names have the same tensor."""
        views, state = self.views(row), self.model.state_dict(keep_vars=True)
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        counts = {name: value.long() for name, value in state.items() if name.endswith(batch_norm.COUNT)}
        trained = {name: views.get(names.get(value), value) for name, value in state.items() if name != FRONT}
        return trained | counts

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> tensor that trains with the flat ``row`` (size,)."""
        return self.layout.views(row)
