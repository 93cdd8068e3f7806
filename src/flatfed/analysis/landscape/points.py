"""Losses of many models at once: the points of a surface, or of the line between two models.

Where memory runs out, less is evaluated at a time, which is said: the same numbers up to rounding.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from flatfed.analysis.trained_model import Trained
from flatfed.engine.memory import shortage
from flatfed.errors import Shortage

TOGETHER = 16  # points of one stacked forward pass
FORWARD = 4096  # images of one stacked forward pass, all points counted
CACHED = 256  # images of one forward pass on a CPU: what larger batches save in calls they lose in caches
KEPT = 1 << 30  # bytes of normalised images that are kept between points
WAYS = ("sequential", "stacked")
HELPS = "What helps: nothing else on the device, one with more memory, or `device: cpu` in place of a GPU"


class Points:
    """Evaluates flat rows of one model on the images ``index`` (n,), ``block`` rows in a call.

    ``way``: ``sequential``, one model after another; ``stacked``, ``together`` models in one forward pass, by vmap, at
    first ``block``. Both give what a run's own evaluation gives, but for rounding. ``size`` images are in one forward
    pass of a model; they are normalised once and kept where they fit.
    """

    def __init__(self, trained: Trained, index: Tensor, way: str):
        self.trained, self.way, self.count = trained, way, len(index)
        self.block = self.together = TOGETHER if way == "stacked" else 1
        size = trained.description["evaluation"]["batch_size"]
        if way == "stacked":
            size = min(size, FORWARD // TOGETHER)
        elif index.device.type == "cpu":
            size = min(size, CACHED)
        self.index, self.size = index, min(size, self.count)
        self.keeps = trained.data.images[0].numel() * self.count * trained.row.itemsize <= KEPT
        self.kept: list[tuple[Tensor, Tensor]] | None = None
        self.model = copy.deepcopy(trained.model)
        self._forward = vmap(self._output, in_dims=(0, None))

    def at(self, points: np.ndarray, weights: Callable[[np.ndarray], Tensor], label: str) -> np.ndarray:
        """Return (2, points), as a call does, of the ``weights(points)``, with less at a time if memory is short.

        ``label`` begins the line that says so. Raises Shortage where memory does not last for one image of one point.
        """
        values = np.empty((2, len(points)))
        done = 0

        def evaluate() -> np.ndarray:
            return self(weights(points[done : done + self.together]))

        while done < len(points):
            found = shortage.retried(evaluate, lambda lacking: self._take_less(lacking, label))
            values[:, done : done + found.shape[1]] = found
            done += found.shape[1]
        return values

    def _take_less(self, lacking: str, label: str) -> None:
        """Have the next attempt take less memory, and say so; ``lacking``: words on the shortage of this one.

        :raises Shortage: one image of one point is evaluated at a time as it is.
        """
        short = f"{label}: not enough memory on {self.index.device.type}{lacking}"
        kept, self.keeps, self.kept = self.keeps, False, None
        shortage.release()
        if kept:
            now = "images are normalised anew for every point now"
        elif self.together > 1:
            now = f"{-(-self.together // 2)} points are evaluated at a time now, not {self.together}"
            self.together = -(-self.together // 2)
        elif self.size > 1:
            now = f"{-(-self.size // 2)} images are evaluated at a time now, not {self.size}"
            self.size = -(-self.size // 2)
        else:
            raise Shortage(f"{short}, where one image of one point is evaluated. {HELPS}")
        print(f"{short}; {now}: the same numbers up to rounding", file=sys.stderr)

    @torch.no_grad()
    def __call__(self, rows: Tensor) -> np.ndarray:
        """Return (2, rows): mean cross-entropy in nats and accuracy of ``rows`` (rows, parameters), in float64."""
        sums = self._stacked(rows) if self.way == "stacked" else torch.stack([self._alone(row) for row in rows], dim=1)
        return (sums / self.count).cpu().numpy()

    def _alone(self, row: Tensor) -> Tensor:
        """Return (2,): the sums of losses and of right answers of one ``row`` (parameters,)."""
        for parameter, view in zip(self.model.parameters(), self.trained.layout.views(row).values(), strict=True):
            parameter.data = view
        sums = torch.zeros(2, dtype=torch.float64, device=row.device)
        for images, labels in self._batches():
            output = self.model(images)
            sums[0] += cross_entropy(output, labels, reduction="sum").double()
            sums[1] += (output.argmax(dim=1) == labels).sum()
        return sums

    def _stacked(self, rows: Tensor) -> Tensor:
        """Return (2, rows): the sums of losses and of right answers of all ``rows`` (rows, parameters)."""
        sums = torch.zeros(2, len(rows), dtype=torch.float64, device=rows.device)
        for images, labels in self._batches():
            outputs = self._forward(rows, images)
            every = labels[:, None].expand(-1, len(rows))
            sums[0] += cross_entropy(outputs.movedim(0, -1), every, reduction="none").sum(dim=0).double()
            sums[1] += (outputs.argmax(dim=2) == labels).sum(dim=1)
        return sums

    def _output(self, row: Tensor, images: Tensor) -> Tensor:
        """Return the logits (batch, classes) of one flat row."""
        return functional_call(self.trained.model, self.trained.layout.views(row), (images,))

    def _batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Return normalised images and labels, batch by batch."""
        if self.keeps and self.kept is None:
            self.kept = [self.trained.batch(part) for part in self.index.split(self.size)]
        return map(self.trained.batch, self.index.split(self.size)) if self.kept is None else self.kept


def choose(trained: Trained, index: Tensor) -> str:
    """Return the faster way to evaluate points on this device.

    On a CPU that is ``sequential``, by measurement (benchmarks/surface.py): stacked convolutions become grouped ones,
    which take about twice as long there. On a GPU it depends on how much of it one model's batch fills, so both are
    tried on one block; ``stacked`` must also fit into its memory.
    """
    if trained.row.device.type == "cpu":
        return "sequential"
    return fastest(trained, index)


def fastest(trained: Trained, index: Tensor) -> str:
    """Return the way that takes less time for one block of points, after one to warm up, of those that fit.

    Where none does that is ``sequential``, which takes less and can be made to take less still (:meth:`Points.at`).
    """
    seconds = {}
    for way in WAYS:
        try:
            seconds[way] = _seconds(trained, index, way)
            continue
        except (RuntimeError, MemoryError) as error:
            if not shortage.is_shortage(error):
                raise
            lacking = shortage.asked(error)
        # Here and not above: while an error is handled, it holds on to what was computed so far.
        shortage.release()
        print(f"{trained.name}: no memory to evaluate points {way}{lacking}", file=sys.stderr)
    return min(seconds, key=seconds.__getitem__, default="sequential")


def _seconds(trained: Trained, index: Tensor, way: str) -> float:
    """Return the wall seconds of one block of points, after one to warm up."""
    rows, points = trained.row.expand(TOGETHER, -1), Points(trained, index, way)
    for _ in range(2):
        began = time.monotonic()
        for part in rows.split(points.block):
            points(part)  # waits for the device: its result is on the host
        seconds = time.monotonic() - began
    return seconds
