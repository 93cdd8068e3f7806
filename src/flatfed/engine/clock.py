"""The seconds of a run's training and evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
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
