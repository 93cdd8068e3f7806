"""Progress of a long run: one line that rewrites itself on a terminal, plain lines at sensible intervals in a log."""

from __future__ import annotations

import sys
import time
from typing import Any


def duration(seconds: float) -> str:
    """Return a time as a person would say it: ``48 s``, ``12 min``, ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Progress:
    """Reports the rounds of one run on standard error."""

    interval = 15.0  # seconds between two lines of a log

    def __init__(self, label: str, rounds: int, done: int):
        self.label = label
        self.rounds = rounds
        self.first = done
        self.began = time.monotonic()
        self.last = -self.interval
        self.terminal = sys.stderr.isatty()
        self.accuracy = ""

    def round(self, done: int, line: dict[str, Any] | None) -> None:
        """Report that ``done`` rounds are finished; ``line`` is the round's line of metrics, if it has one."""
        if line is not None:
            unseen = "validation" if "validation_accuracy" in line else "test"
            self.accuracy = f"{unseen} accuracy {100 * line[f'{unseen}_accuracy']:.2f} %  "
        now = time.monotonic() - self.began
        if not self.terminal and done < self.rounds and now - self.last < self.interval:
            return
        self.last = now
        pace = now / max(1, done - self.first)
        text = (
            f"{self.label}: round {done}/{self.rounds}  {self.accuracy}"
            f"{pace:.3g} s a round  {duration(pace * (self.rounds - done))} left"
        )
        end = "\n" if not self.terminal or done == self.rounds else ""
        start = "\r\033[K" if self.terminal else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)
