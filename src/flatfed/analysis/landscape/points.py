"""Losses of many models: the points of a surface, or of the line between two models.

Where memory runs out, less is evaluated at a time, which is said: the same numbers up to rounding.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flatfed.analysis.trained_model import Trained
from flatfed.engine.memory import shortage
from flatfed.errors import Shortage

CACHED = 256  # images of one forward pass on a CPU: what larger batches save in calls they lose in caches
KEPT = 1 << 30  # bytes of normalised images that are kept between points
HELPS = "What helps: nothing else on the device, one with more memory, or `device: cpu` in place of a GPU"


class Points:
    """Evaluates flat rows of one model on the images ``index`` (n,), as a run's own evaluation does but for rounding.

    ``size`` images are in one forward pass; they are normalised once and kept where they fit.
    """

    def __init__(self, trained: Trained, index: Tensor):
        self.trained, self.index = trained, index
        size = trained.description["evaluation"]["batch_size"]
        self.size = min(size, len(index), CACHED if index.device.type == "cpu" else size)
        self.keeps = trained.data.images[0].numel() * len(index) * trained.row.itemsize <= KEPT
        self.kept: list[tuple[Tensor, Tensor]] | None = None
        self.model = copy.deepcopy(trained.model)

    def at(self, weights: Callable[[], Tensor], label: str) -> np.ndarray:
        """Return (2,), as a call does, of the row ``weights()``, with less at a time if memory is short.

        ``label`` begins the line that says so. Raises Shortage where memory does not last for one image.
        """
        return shortage.retried(lambda: self(weights()), lambda lacking: self._take_less(lacking, label))

    def _take_less(self, lacking: str, label: str) -> None:
        """Have the next attempt take less memory, and say so; ``lacking``: words on the shortage of this one.

        :raises Shortage: one image is evaluated at a time as it is.
        """
        short = f"{label}: not enough memory on {self.index.device.type}{lacking}"
        kept, self.keeps, self.kept = self.keeps, False, None
        shortage.release()
        if kept:
            now = "images are normalised anew for every point now"
        elif self.size > 1:
            now = f"{-(-self.size // 2)} images are evaluated at a time now, not {self.size}"
            self.size = -(-self.size // 2)
        else:
            raise Shortage(f"{short}, where one image of one point is evaluated. {HELPS}")
        print(f"{short}; {now}: the same numbers up to rounding", file=sys.stderr)

    @torch.no_grad()
    def __call__(self, row: Tensor) -> np.ndarray:
        """Return (2,): mean cross-entropy in nats and accuracy of ``row`` (parameters,), in float64."""
        for parameter, view in zip(self.model.parameters(), self.trained.layout.views(row).values(), strict=True):
            parameter.data = view
        sums = torch.zeros(2, dtype=torch.float64, device=row.device)
        for images, labels in self._batches():
            output = self.model(images)
            sums[0] += cross_entropy(output, labels, reduction="sum").double()
            sums[1] += (output.argmax(dim=1) == labels).sum()
        return (sums / len(self.index)).cpu().numpy()

    def _batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Return normalised images and labels, batch by batch."""
        if self.keeps and self.kept is None:
            self.kept = [self.trained.batch(part) for part in self.index.split(self.size)]
        return map(self.trained.batch, self.index.split(self.size)) if self.kept is None else self.kept
