"""The batches of local steps on the device, made from a round's plan."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatfed.engine import dropout
from flatfed.engine.batches import RoundPlan
from flatfed.engine.executors import Batch
from flatfed.engine.resident import Resident
from flatfed.engine.transfer import to_device


@dataclass
class Feed:
    data: Resident
    model: nn.Module

    def inputs(self, plan: RoundPlan, device: torch.device) -> dict[str, Tensor]:
        """Return name -> tensor (rows, K, ...) of a round: index, labels, weight and, if present, draws and keys.

        The index is on the device of the images, the others on ``device``.
        """
        index = to_device(plan.index, device)
        weight = to_device(plan.weight, device, self.data.dtype)
        optional = {name: getattr(plan, name) for name in ("draws", "keys")}
        return {
            "index": index if self.data.images.device.type == device.type else torch.from_numpy(plan.index),
            "labels": self.data.labels[index],
            "weight": weight,
            **{name: to_device(values, device) for name, values in optional.items() if values is not None},
        }

    def batch(self, inputs: dict[str, Tensor], width: int | None = None) -> Batch:
        """Return the batch of one step of :meth:`inputs`, each (rows, B, ...), narrowed to ``width`` images."""
        keys = inputs.get("keys")
        index, labels, weight, *draws = (values[:, :width] for name, values in inputs.items() if name != "keys")
        masks = [] if keys is None else dropout.masks(keys, self.model.dropout, index.shape[1], self.data.dtype)
        return Batch(self.data.batch(index, *draws), labels, weight, masks)
