"""A run's model and its initial weights."""

from __future__ import annotations

import copy
import os

import torch
from torch import Tensor, nn

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.data.streams import torch_seed
from flatfed.models import batch_norm, pretrained, user_model
from flatfed.runs.run_config import RunConfig


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


class Weights:
    """``model`` in training mode, ``layout`` of its rows, and ``initial`` (size,), the first row.

    ``evaluated``: the model in evaluation mode, with the same tensors. ``parameters``: number of those that train, also
    in communication. ``buffers`` (1, size): those of BatchNorm in both models, of the server.
    """

    def __init__(self, model: nn.Module, initial: Tensor, device: torch.device, dtype: torch.dtype):
        self.parameters, self.layout = len(initial), Layout.of(model)
        self.model, self.initial = model.to(device, dtype), initial.to(device, dtype)
        self.model.train()
        self.buffers = batch_norm.join_buffers(self.model, self.initial)
        self.buffer_layout = batch_norm.buffer_layout(self.model)
        shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
        self.evaluated = copy.deepcopy(self.model, shared)
        self.evaluated.eval()

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """Return the model's state dict with the flat ``row`` (size,); tied names have the same tensor."""
        views, state = self.views(row), self.model.state_dict(keep_vars=True)
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        counts = {name: value.long() for name, value in state.items() if name.endswith(batch_norm.COUNT)}
        return {name: views.get(names.get(value), value) for name, value in state.items()} | counts

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> tensor that trains with the flat ``row`` (size,)."""
        return self.layout.views(row)
