"""The cost of a run: seconds, local steps, gradients, bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from flatfed.algorithms import Algorithm
from flatfed.engine.batches import Schedule


class Clock:
    """The ``seconds`` of training and evaluation."""

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds = {"training": 0.0, "evaluation": 0.0}

    def wait(self) -> None:
        """Wait for the device, whose work is asynchronous."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @contextmanager
    def counted_as(self, activity: str) -> Iterator[None]:
        """Add the time of the body to ``activity``, without time that it counts as another activity.

        A body that raises is not counted.
        """
        self.wait()
        began, before = time.monotonic(), sum(self.seconds.values())
        yield
        self.wait()
        elsewhere = sum(self.seconds.values()) - before
        self.seconds[activity] += time.monotonic() - began - elsewhere


class Cost:
    """Counts ``local_steps``, ``gradient_evaluations``, and bytes of ``download`` and ``upload``.

    A model has ``size`` bytes, and ``buffers`` more of BatchNorm, which are sent once in each direction. A full pass
    over a client's data counts as many gradients as an epoch has steps.
    """

    def __init__(self, algorithm: Algorithm, schedule: Schedule, size: int, buffers: int = 0):
        self.algorithm, self.schedule, self.size, self.buffers = algorithm, schedule, size, buffers
        self.counts = {"local_steps": 0, "gradient_evaluations": 0, "download": 0, "upload": 0}

    def round(self, sizes: list[int], steps: int) -> None:
        passes = self.algorithm.full_passes * sum(self.schedule.batches(size) for size in sizes)
        self.counts["local_steps"] += steps
        self.counts["gradient_evaluations"] += steps * self.algorithm.gradients_per_step + passes
        if not self.algorithm.decentralised:
            self.links(len(sizes))

    def links(self, count: int) -> None:
        """Add the traffic with ``count`` clients, or of ``count`` links."""
        down, up = self.algorithm.communication
        self.counts["download"] += int(count * (down * self.size + self.buffers))
        self.counts["upload"] += int(count * (up * self.size + self.buffers))
