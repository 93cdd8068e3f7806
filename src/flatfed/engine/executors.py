"""Executors compute the gradients of the rows that train together.

In float64 they agree to 1e-12. In float32 they round differently, so the executor is part of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import log_softmax

from flatfed.data import augment
from flatfed.engine.layout import Layout
from flatfed.errors import ConfigError, unknown

Transform = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Batch:
    """One step's batch of every row.

    ``images`` (rows, B, C, H, W) normalised; ``labels`` (rows, B); ``weights`` (rows, B): 1 / (batch size), 0 for
    padding; ``masks``: scaled dropout masks, each (rows, B, *shape).
    """

    images: Tensor
    labels: Tensor
    weights: Tensor
    masks: list[Tensor]


@dataclass(eq=False)
class Executor(ABC):
    """Computes losses and gradients of flat rows; ``block`` rows train together (None: all rows of a round).

    ``full_width``: pads a smaller batch to the full size, otherwise to the widest batch of the rows. ``recorded``:
    records and replays local steps. ``layers``: dtype of the layers, None for that of the rows.
    """

    name: ClassVar[str]
    block: ClassVar[int | None]
    full_width: ClassVar[bool] = False
    recorded: ClassVar[bool] = False

    model: nn.Module
    layout: Layout
    transform: Transform | None = None
    layers: torch.dtype | None = None

    @abstractmethod
    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return losses (rows,) and gradients (rows, parameters) of ``batch`` at the rows ``w``."""

    def step(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """As ``__call__``, for a local step: the results of a row must not depend on the number of rows."""
        return self(w, batch)

    def loss(self, tensors: dict[str, Tensor], private: Tensor, batch: Batch) -> Tensor:
        """Return the weighted cross-entropy on the ``batch`` of one row.

        ``tensors``: parameters by name, in the dtype of the layers. ``private``: the client's private coordinates.
        """
        images, masks, weights = batch.images, batch.masks, batch.weights
        if self.transform is not None:
            images = self.transform(images, private)
        if self.layers is not None:
            images, masks = images.to(self.layers), [mask.to(self.layers) for mask in masks]
        output = functional_call(self.model, tensors, (images, masks) if masks else (images,)).to(weights.dtype)
        # Not cross_entropy: under vmap it spends a second on loading symbolic algebra.
        log_likelihoods = log_softmax(output, dim=1).gather(1, batch.labels[:, None])[:, 0]
        return -(log_likelihoods * weights).sum()


class Sequential(Executor):
    """One client after another: least memory; fastest on a CPU for large models."""

    name = "sequential"
    block = 1

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        losses, gradients = torch.empty(len(w), dtype=w.dtype, device=w.device), torch.empty_like(w)
        for i in range(len(w)):
            self.row(i, w, batch, losses, gradients)
        return losses, gradients

    def row(self, i: int, w: Tensor, batch: Batch, losses: Tensor, gradients: Tensor) -> None:
        masks = [mask[i] for mask in batch.masks]
        images = augment.channels_last(batch.images[i])
        # The leaves are the model's tensors: the gradient of the row would need another copy.
        shared = w[i].detach() if self.layers is None else w[i].detach().to(self.layers)
        tensors = {name: view.requires_grad_() for name, view in self.layout.views(shared).items()}
        leaves, targets = list(tensors.values()), list(self.layout.views(gradients[i]).values())
        rest = w[i, self.layout.tensor_size :].detach().requires_grad_()
        if len(rest):
            leaves.append(rest)
            targets.append(gradients[i, self.layout.tensor_size :])
        private = rest[self.layout.extra :]
        loss = self.loss(tensors, private, Batch(images, batch.labels[i], batch.weights[i], masks))
        for target, gradient in zip(targets, torch.autograd.grad(loss, leaves, materialize_grads=True), strict=True):
            target.copy_(gradient)
        losses[i] = loss.detach()


class Stacked(Executor):
    """All active clients at once by vmap: fastest if one client's batch leaves the machine idle."""

    name = "stacked"
    block = None
    full_width = True

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        # The gradient of the sum contains the gradient of each row. (torch.func.grad would load the compiler.)
        leaf = w.detach().requires_grad_()
        losses = vmap(self._row_loss)(leaf, batch.images, batch.labels, batch.weights, batch.masks)
        (gradients,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradients

    def _row_loss(self, row: Tensor, *batch: Any) -> Tensor:
        shared = row if self.layers is None else row.to(self.layers)
        return self.loss(self.layout.views(shared), row[self.layout.size :], Batch(*batch))

    def step(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        if len(w) > 1 or w.device.type != "cpu":
            return self(w, batch)
        # Libraries compute a single row with other kernels, which round differently.
        pair = [torch.cat([values, values]) for values in (batch.images, batch.labels, batch.weights)]
        losses, gradients = self(torch.cat([w, w]), Batch(*pair, [torch.cat([mask, mask]) for mask in batch.masks]))
        return losses[:1], gradients[:1]


class Graph(Stacked):
    name = "graph"
    recorded = True


EXECUTORS: dict[str, type[Executor]] = {cls.name: cls for cls in (Sequential, Stacked, Graph)}


def executor_class(name: str) -> type[Executor]:
    if name not in EXECUTORS:
        raise ConfigError(unknown("executor", name, EXECUTORS, "executor"))
    return EXECUTORS[name]
