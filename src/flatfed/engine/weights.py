"""A run's model and its initial weights."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.data.streams import torch_seed
from flatfed.models import pretrained
from flatfed.runs.run_config import RunConfig


def initial_model(config: RunConfig, pretrained_file: str | os.PathLike[str] | None = None) -> tuple[nn.Module, Tensor]:
    """Return a run's model and its initial weights (parameters,), float32, drawn with the seed's key.

    ``pretrained_file``: initial weights to use instead.
    """
    spec, data = config.model, config.dataset
    seed = torch_seed(config.seed, "weights")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = models.build(spec.name, tuple(data.shape), data.classes, spec.options)
    models.refuse_layers(model)
    initial = models.initial_weights(model, torch.Generator().manual_seed(seed))
    if pretrained_file is not None:
        initial = pretrained.load(model, initial, pretrained_file)
    return model, initial


class Weights:
    """``model``, ``layout`` of its rows, and ``initial`` (size,), the first row.

    ``parameters``: size of the model in files and in communication.
    """

    def __init__(self, model: nn.Module, initial: Tensor, device: torch.device, dtype: torch.dtype):
        self.parameters, self.layout = len(initial), Layout.of(model)
        self.model = model.to(device, dtype).requires_grad_(False)
        self.initial = initial.to(device, dtype)

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> tensor of the model with the flat ``row`` (size,)."""
        return self.layout.views(row)
