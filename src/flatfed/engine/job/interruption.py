"""SIGTERM and SIGINT: noted when they come, acted on where a run can stop and lose nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
TOGETHER = 1.0  # seconds in which signals are one request: Ctrl-C, Snakemake and Slurm send several at a time

_asked: list[int] = []


class Stopped(Exception):
    """A run stopped because it was told to; ``number`` of the signal. What it had done is in its checkpoint."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number

    @property
    def status(self) -> int:
        """Exit status: 128 + the signal's number, as a shell gives it.

        Anything but 0 makes Snakemake try again. Slurm requeues a job that it preempts at once, or that somebody
        requeues, whatever its status; one that leaves within a preemption's grace time has failed, and is Snakemake's.
        """
        return 128 + self.number


def ask(number: int = signal.SIGTERM) -> None:
    """Ask the runs of this process to stop, as the signal ``number`` would."""
    if not _asked:
        _asked.append(number)


def check() -> None:
    """Raise Stopped if a signal asked for it."""
    if _asked:
        raise Stopped(_asked[0])


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Note the first SIGTERM or SIGINT, for :func:`check`; a later one ends the process at once.

    Handlers belong to a process's main thread: in any other this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = 0.0

    def note(number: int, _: Any) -> None:
        nonlocal first
        if not first:  # the first signal, whether or not something else asked before
            first = time.monotonic()
            ask(number)
        elif time.monotonic() - first > TOGETHER:
            os._exit(128 + number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()
