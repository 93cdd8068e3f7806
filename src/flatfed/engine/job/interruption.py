"""SIGTERM, SIGINT and SIGHUP: noted on arrival, obeyed where a run can stop without loss."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
BURST = 1.0  # seconds in which signals count as one: Ctrl-C, Snakemake and Slurm send several

_requests: list[int] = []


class Stopped(Exception):
    """A signal ``number`` stops the run; the job then writes a checkpoint."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number

    @property
    def status(self) -> int:
        """Exit status as in a shell; Snakemake retries after any status but 0."""
        return 128 + self.number


def check() -> None:
    if _requests:
        raise Stopped(_requests[0])


@contextlib.contextmanager
def signals_noted() -> Iterator[None]:
    """Note the first of ``SIGNALS`` for :func:`check`; a later one ends the process at once.

    An ignored SIGHUP (``nohup``) stays ignored.
    """
    first = 0.0

    def note(number: int, _: Any) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            _requests.append(number)
        elif time.monotonic() - first > BURST:
            os._exit(128 + number)

    ignored = signal.SIGHUP if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else None
    before = {number: signal.signal(number, note) for number in SIGNALS if number != ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _requests.clear()
