"""Losses of many models: the points of a surface."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flatfed.analysis.trained_model import Trained

CACHED = 256  # images of one forward pass on a CPU: what larger batches save in calls they lose in caches
KEPT = 1 << 30  # bytes of normalised images that are kept between points


class Points:
    """Evaluates flat rows of one model on the images ``index`` (n,), as a run's own evaluation does but for rounding.

    ``size`` images are in one forward pass; they are normalised once and kept where they fit.
    """

    def __init__(self, trained: Trained, index: Tensor):
        self.trained, self.index = trained, index
        size = trained.record.description["evaluation"]["batch_size"]
        self.size = min(size, len(index), CACHED if index.device.type == "cpu" else size)
        keeps = trained.data.images[0].numel() * len(index) * trained.row.itemsize <= KEPT
        self.kept = list(self._batches()) if keeps else None
        self.model = copy.deepcopy(trained.model)

    @torch.no_grad()
    def __call__(self, row: Tensor) -> np.ndarray:
        """Return (2,): mean cross-entropy in nats and accuracy of ``row`` (parameters,), in float64."""
        for parameter, view in zip(self.model.parameters(), self.trained.layout.views(row).values(), strict=True):
            parameter.data = view
        sums = torch.zeros(2, dtype=torch.float64, device=row.device)
        for images, labels in self.kept or self._batches():
            output = self.model(images)
            sums[0] += cross_entropy(output, labels, reduction="sum").double()
            sums[1] += (output.argmax(dim=1) == labels).sum()
        return (sums / len(self.index)).cpu().numpy()

    def _batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Return normalised images and labels, batch by batch."""
        return map(self.trained.batch, self.index.split(self.size))
