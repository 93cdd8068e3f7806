"""Executors compute the gradients of the rows that train together.

A row is one client's flat parameters. In float32, executors round differently: a checkpoint resumes only with its own
executor. FlatFed accepts finished runs of other executors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.functional import log_softmax

from flatfed.algorithms._layout import Layout
from flatfed.data import augment
from flatfed.engine import hooks, second_stream, weights
from flatfed.errors import ConfigError, unknown
from flatfed.models import batch_norm


@dataclass
class Batch:
    """One step's batch of every row.

    ``images`` (rows, B, C, H, W) normalised; ``labels`` (rows, B); ``weights`` (rows, B): 1 / (batch size), 0 for
    padding; ``masks``: scaled dropout masks, each (rows, B, *shape). ``second`` (rows, parameters): the model of the
    algorithm's own loss, or None. ``buffers`` (rows, size): those of BatchNorm, which a pass updates in place, or None.
    """

    images: Tensor
    labels: Tensor
    weights: Tensor
    masks: list[Tensor]
    second: Tensor | None = None
    buffers: Tensor | None = None

    @property
    def parts(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: part for name, part in vars(self).items() if part is not None}

    def versions(self) -> list[int]:
        """Return a number per tensor, which each change in place increases."""
        return [tensor._version for tensor in (self.images, self.labels, self.weights, *self.masks)]


@dataclass(eq=False)
class Executor(ABC):
    """Computes losses and gradients.

    ``together``: all rows of a round train together on batches of the full size, otherwise one row after the other on
    batches of its own size. ``records_steps``: replays local steps, of a model with the layers of
    :mod:`flatfed.engine.speed.live`. ``layer_dtype``: None for the dtype of the rows. ``own_loss``: the algorithm's
    hook, None for cross-entropy; ``two_models``: it needs the batch's second model, and batches without one have
    cross-entropy. ``label_smoothing``: as in torch's cross-entropy. ``evaluated``: the model in
    evaluation mode, for the second model.
    """

    name: ClassVar[str]
    together: ClassVar[bool]
    records_steps: ClassVar[bool] = False

    model: nn.Module
    layout: Layout
    layer_dtype: torch.dtype | None = None
    own_loss: Callable[[Tensor, Tensor, Tensor | None], Tensor] | None = None
    two_models: bool = False
    label_smoothing: float = 0.0
    evaluated: nn.Module | None = None

    @abstractmethod
    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return losses (rows,) and gradients (rows, parameters) of ``batch`` at the rows ``w``."""

    def loss(self, tensors: dict[str, Tensor], batch: Batch) -> Tensor:
        """Return the weighted loss on one row's ``batch``; ``tensors``: parameters by name, in the layers' dtype."""
        output = self.logits(self.model, tensors, batch)
        second = None
        if batch.second is not None:
            tensors = self.layout.views(self.cast(batch.second))
            second = self.logits(self.evaluated, tensors, replace(batch, masks=[], buffers=None))
        if second is not None or (self.own_loss and not self.two_models):
            losses = hooks.checked(self.own_loss, self.own_loss(output, batch.labels, second), batch.weights)
            return (losses * batch.weights).sum()
        # Not cross_entropy: under vmap it spends a second on loading symbolic algebra.
        logarithms = log_softmax(output, dim=1)
        log_likelihoods = logarithms.gather(1, batch.labels[:, None])[:, 0]
        if share := self.label_smoothing:
            log_likelihoods = (1 - share) * log_likelihoods + share * logarithms.mean(dim=1)
        return -(log_likelihoods * batch.weights).sum()

    def cast(self, row: Tensor) -> Tensor:
        """Return ``row`` in the layers' dtype."""
        return row if self.layer_dtype is None else row.to(self.layer_dtype)

    @cached_property
    def fixed(self) -> dict[str, Tensor]:
        """The model's :func:`flatfed.engine.weights.fixed` tensors, in the layers' dtype."""
        return {name: self.cast(value) for name, value in weights.fixed(self.model).items()}

    @cached_property
    def buffers(self) -> Layout:
        """The layout of a batch's buffers."""
        return batch_norm.buffer_layout(self.model)

    @cached_property
    def unpadded(self) -> list[str]:
        """Names of the image weights that layers of BatchNorm need."""
        return batch_norm.image_weights(self.model)

    def logits(self, model: nn.Module, tensors: dict[str, Tensor], batch: Batch) -> Tensor:
        """Return the logits (B, classes) of ``model`` on one row's ``batch``."""
        images, masks = batch.images, batch.masks
        if self.layer_dtype is not None:
            images, masks = images.to(self.layer_dtype), [mask.to(self.layer_dtype) for mask in masks]
        inputs = (images, masks) if masks else (images,)
        views = {} if batch.buffers is None else self.buffers.views(batch.buffers)
        # Copies: a change of a view would also count as a change of the other views, which autograd has saved.
        buffers = {name: view.clone() for name, view in views.items()}
        image_weights = dict.fromkeys(self.unpadded, batch.weights)
        output = weights.pass_images(model, {**self.fixed, **tensors, **buffers, **image_weights}, inputs)
        for name, view in views.items():
            view.copy_(buffers[name])
        return output.to(batch.weights.dtype)


class Sequential(Executor):
    """One client after another: least memory; fastest on a CPU for large models."""

    name = "sequential"
    together = False

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        losses, gradients = torch.empty(len(w), dtype=w.dtype, device=w.device), torch.empty_like(w)
        for i in range(len(w)):
            self.compute_row(i, w, batch, losses, gradients)
        return losses, gradients

    def compute_row(self, i: int, w: Tensor, batch: Batch, losses: Tensor, gradients: Tensor) -> None:
        """Write row ``i`` of ``losses`` and ``gradients``."""
        masks = [mask[i] for mask in batch.masks]
        images = augment.channels_last(batch.images[i])
        # Leaves are the model's tensors: the row's gradient would need another copy.
        tensors = {name: view.requires_grad_() for name, view in self.layout.views(self.cast(w[i].detach())).items()}
        leaves, targets = list(tensors.values()), list(self.layout.views(gradients[i]).values())
        second, buffers = (None if part is None else part[i] for part in (batch.second, batch.buffers))
        loss = self.loss(tensors, Batch(images, batch.labels[i], batch.weights[i], masks, second, buffers))
        torch._foreach_copy_(targets, torch.autograd.grad(loss, leaves, materialize_grads=True))
        if self.layout.extra:
            gradients[i, self.layout.tensor_size :] = 0
        losses[i] = loss.detach()


class Stacked(Executor):
    """All active clients at once by vmap: fastest on a CPU for models that leave it idle."""

    name = "stacked"
    together = True

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        # The gradient of the sum contains the gradient of each row. (torch.func.grad loads the compiler.)
        leaf = w.detach().requires_grad_()

        def loss(row: Tensor, parts: dict[str, Any]) -> Tensor:
            return self.loss(self.layout.views(self.cast(row)), Batch(**parts))

        losses = vmap(loss)(leaf, batch.parts)
        (gradients,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradients


class Products(Stacked):
    """Replays recorded local steps in which each layer computes all clients: fastest for ResNet-18 on a GPU."""

    name = "products"
    records_steps = True

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        layout = self.layout
        leaves = {name: view.requires_grad_() for name, view in layout.views(self.cast(w.detach())).items()}
        losses = vmap(lambda tensors, parts: self.loss(tensors, Batch(**parts)))(leaves, batch.parts)
        try:
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        finally:
            second_stream.join()
        return losses.detach(), torch.cat([*map(layout.flat, gradients), losses.new_zeros(len(w), layout.extra)], dim=1)


EXECUTORS: dict[str, type[Executor]] = {cls.name: cls for cls in (Sequential, Stacked, Products)}
REPLACED = {"graph": "products"}  # name in the configuration -> successor


def executor_class(name: str) -> type[Executor]:
    """Return the executor of a ``name`` in the configuration."""
    name = REPLACED.get(name, name)
    if name not in EXECUTORS:
        raise ConfigError(unknown("executor", name, EXECUTORS, "executor"))
    return EXECUTORS[name]
