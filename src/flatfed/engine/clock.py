"""The seconds that a run takes, by what they are spent on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """``seconds`` of a run on ``device``, over all of its sessions: of its training and of its evaluation."""

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds = {"training": 0.0, "evaluation": 0.0}

    def wait(self) -> None:
        """Wait for the device, so that clocks measure work and not its submission."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @contextmanager
    def counted_as(self, activity: str) -> Iterator[None]:
        """Add the time that the body takes to that of ``activity``, but for what it counts as another one itself.

        A body that ends with an error is not counted.
        """
        self.wait()
        began, before = time.monotonic(), sum(self.seconds.values())
        yield
        self.wait()
        elsewhere = sum(self.seconds.values()) - before
        self.seconds[activity] += time.monotonic() - began - elsewhere
