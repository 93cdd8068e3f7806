"""Executors: how the gradients of the rows that train together are computed.

All give the same numbers in float64 to 1e-12. In float32 they round differently, so the executor is part of a run.
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

    ``images`` (rows, B, C, H, W) normalised; ``labels`` (rows, B); ``weights`` (rows, B), one over the batch size, 0
    where padded; ``masks`` the model's scaled dropout masks, each (rows, B, *shape).
    """

    images: Tensor
    labels: Tensor
    weights: Tensor
    masks: list[Tensor]


class Executor(ABC):
    """Computes losses and gradients of flat rows; ``block`` rows train together (None: all of a round).

    ``whole``: pads a ragged batch to its full size, else to the widest of the rows. ``recorded``: local steps are
    recorded and replayed, on a GPU as CUDA graphs. ``layers``: dtype of the model's layers, None for that of the rows.
    """

    name: ClassVar[str]
    block: ClassVar[int | None]
    whole: ClassVar[bool] = False
    recorded: ClassVar[bool] = False

    def __init__(
        self, model: nn.Module, layout: Layout, transform: Transform | None = None, layers: torch.dtype | None = None
    ):
        self.model = model
        self.layout = layout
        self.transform = transform
        self.layers = layers

    @abstractmethod
    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses (rows,) and gradients (rows, parameters) at the rows ``w`` of ``batch``."""

    def step(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the same for a local step, in which the results of a row may not depend on the number of rows."""
        return self(w, batch)

    def loss(self, tensors: dict[str, Tensor], private: Tensor, batch: Batch) -> Tensor:
        """Return the weighted cross-entropy of the model of ``tensors``, by name, on the ``batch`` of one row.

        ``tensors`` are in the format of the layers; ``batch`` and the loss in that of the rows. ``private``: the
        client's own coordinates, for the algorithm's transform.
        """
        images, masks, weights = batch.images, batch.masks, batch.weights
        if self.transform is not None:
            images = self.transform(images, private)
        if self.layers is not None:
            images, masks = images.to(self.layers), [mask.to(self.layers) for mask in masks]
        output = functional_call(self.model, tensors, (images, masks) if masks else (images,)).to(weights.dtype)
        # Not cross_entropy: under vmap its decomposition loads symbolic algebra, a second.
        right = log_softmax(output, dim=1).gather(1, batch.labels[:, None])[:, 0]
        return -(right * weights).sum()


class Sequential(Executor):
    """One client after another: least memory, and fastest on a CPU for models that fill its cores by themselves."""

    name = "sequential"
    block = 1

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        losses, gradients = torch.empty(len(w), dtype=w.dtype, device=w.device), torch.empty_like(w)
        for i in range(len(w)):
            self.row(i, w, batch, losses, gradients)
        return losses, gradients

    def row(self, i: int, w: Tensor, batch: Batch, losses: Tensor, gradients: Tensor) -> None:
        """Write row ``i`` of ``losses`` (rows,) and ``gradients`` (rows, parameters)."""
        masks = [mask[i] for mask in batch.masks]
        images = augment.channels_last(batch.images[i])
        # The model's tensors are the leaves, and not the row, whose gradient would be joined first and then copied.
        shared = w[i].detach() if self.layers is None else w[i].detach().to(self.layers)
        tensors = {name: view.requires_grad_() for name, view in self.layout.views(shared).items()}
        leaves, into = list(tensors.values()), list(self.layout.views(gradients[i]).values())
        rest = w[i, self.layout.tensors :].detach().requires_grad_()
        if len(rest):
            leaves.append(rest)
            into.append(gradients[i, self.layout.tensors :])
        private = rest[self.layout.extra :]
        loss = self.loss(tensors, private, Batch(images, batch.labels[i], batch.weights[i], masks))
        found = torch.autograd.grad(loss, leaves, materialize_grads=True)
        for target, gradient in zip(into, found, strict=True):
            target.copy_(gradient)
        losses[i] = loss.detach()


class Stacked(Executor):
    """All active clients at once by vmap: fastest where one client's batch leaves the machine idle."""

    name = "stacked"
    block = None
    whole = True

    def __init__(self, *of: Any):
        super().__init__(*of)
        self._mapped = vmap(self._alone)

    def __call__(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        # The gradient of the losses' sum is every row's own. (torch.func.grad would load the compiler: a second.)
        leaf = w.detach().requires_grad_()
        losses = self._mapped(leaf, batch.images, batch.labels, batch.weights, batch.masks)
        (gradients,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradients

    def _alone(self, row: Tensor, *batch: Any) -> Tensor:
        """Return the loss of one ``row`` (parameters,) on its batch."""
        shared = row if self.layers is None else row.to(self.layers)
        return self.loss(self.layout.views(shared), row[self.layout.size :], Batch(*batch))

    def step(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        if len(w) > 1 or w.device.type != "cpu":
            return self(w, batch)
        # A lone row takes other paths through the libraries, and ends in other bits, than one among others.
        pair = [torch.cat([values, values]) for values in (batch.images, batch.labels, batch.weights)]
        losses, gradients = self(torch.cat([w, w]), Batch(*pair, [torch.cat([mask, mask]) for mask in batch.masks]))
        return losses[:1], gradients[:1]


class Graph(Stacked):
    """The stacked step, recorded as one CUDA graph."""

    name = "graph"
    recorded = True


EXECUTORS: dict[str, type[Executor]] = {cls.name: cls for cls in (Sequential, Stacked, Graph)}


def kind(name: str) -> type[Executor]:
    """Return the executor called ``name``; ConfigError if there is none."""
    if name not in EXECUTORS:
        raise ConfigError(unknown("executor", name, EXECUTORS, "executor"))
    return EXECUTORS[name]
