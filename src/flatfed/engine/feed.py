"""What a local step is fed with: the images, labels, weights and dropout masks of its plan, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatfed.engine import dropout
from flatfed.engine.batches import RoundPlan
from flatfed.engine.executors import Batch
from flatfed.engine.resident import Resident
from flatfed.engine.transfer import sent


@dataclass
class Feed:
    """Batches of ``data`` for ``model``."""

    data: Resident
    model: nn.Module

    def dealt(self, plan: RoundPlan, device: torch.device) -> list[Tensor]:
        """Return index, labels, weights and, where images are augmented, draws of a round, each (rows, K, B, ...).

        The index lies where the images are, the others on ``device``.
        """
        index = sent(plan.index, device)
        weight = sent(plan.weight, device, self.data.dtype)
        draws = [] if plan.draws is None else [sent(plan.draws, device)]
        there = self.data.images.device.type == device.type
        return [index if there else torch.from_numpy(plan.index), self.data.labels[index], weight, *draws]

    def keys(self, plan: RoundPlan, device: torch.device) -> Tensor | None:
        """Return the keys (rows, K, sites, 2) of a round's dropout masks, None where there are none."""
        return None if plan.keys is None else sent(plan.keys, device)

    def batch(self, dealt: list[Tensor], keys: Tensor | None) -> Batch:
        """Return the batch of one step's part of :meth:`dealt`, each (rows, B, ...), and :meth:`keys`."""
        index, labels, weight, *draws = dealt
        masks = [] if keys is None else dropout.masks(keys, self.model.dropout, index.shape[1], self.data.dtype)
        return Batch(self.data.batch(index, *draws), labels, weight, masks)


def blank_batch(
    model: nn.Module, rows: int, images: int, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device
) -> Batch:
    """Return ``images`` black images of ``shape`` (C, H, W) a row, with all that a step of ``model`` reads, zero."""

    def zeros(*sizes: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.zeros(rows, images, *sizes, dtype=dtype, device=device)

    return Batch(zeros(*shape), zeros(dtype=torch.int64), zeros(), [zeros(*mask) for mask, _ in model.dropout])
