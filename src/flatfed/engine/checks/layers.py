"""Which executors can run a model with statistics of batches, known before the first round."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn

from flatfed import models
from flatfed.engine.checks.first_round import layer
from flatfed.engine.executors import Executor, executor_class
from flatfed.engine.weights import build
from flatfed.errors import ConfigError
from flatfed.models import batch_norm, user_model
from flatfed.runs.run_config import RunConfig


def check(model: nn.Module, name: str, shape: tuple[int, int, int], kind: type[Executor]) -> None:
    """Refuse ``model``, called ``name``, for images of ``shape`` (C, H, W) if executors of ``kind`` cannot run a layer.

    Its layers of BatchNorm leave out padding (:func:`flatfed.models.batch_norm.leave_out_padding`).
    """
    file, layers, reason, others = models.own_file(name), batch_norm.layers(model), None, "`executor: sequential`"
    if kind.records_steps and layers:
        path, first = next(iter(layers.items()))
        reason = f"layer {path!r} ({type(first).__name__}): recorded steps have no BatchNorm"
        others = f"`executor: stacked` or {others}"
    elif kind.together and file:
        mixing = user_model.mixing_layer(model, shape)
        reason = mixing and f"an image's values depend on padding of its batch, first after {mixing}"
    if reason is not None:
        text = f"{name} ({file})" if file else name
        raise ConfigError(f"executor {kind.name} cannot run model {text}: {reason}; use {others}")


def refuse_single_values(model: nn.Module, name: str, shape: tuple[int, int, int]) -> None:
    """Refuse ``model``, called ``name``, if a layer gets one value per channel of an image of ``shape`` (C, H, W)."""
    model = copy.deepcopy(model)
    try:
        with torch.no_grad():
            model(torch.zeros(1, *shape))
    except ValueError as error:  # torch's
        text = "has one value per channel in the smallest batch, of 1 image, so no variance"
        problem = f"model {name}: {layer(error, model).rstrip(': ')} {text}"
        raise ConfigError(f"{problem}; allowed: another batch size, or larger images") from error


def refusals(config: RunConfig) -> Iterator[tuple[str, ConfigError]]:
    """Yield (device, reason) for each executor of a run's settings that cannot run a layer of its model."""
    model, shape = build(config), tuple(config.dataset.shape)
    batch_norm.leave_out_padding(model)
    for device in ("cpu", "cuda"):
        try:
            check(model, config.model.name, shape, executor_class(getattr(config.executor, device)))
        except ConfigError as error:
            yield device, error
