"""Reports of a training: lines in its log, or a bar."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from typing import Any

from flatfed.engine.callbacks import Callback
from flatfed.engine.job.progress import Progress
from flatfed.engine.simulation import Simulation


def say(text: str) -> None:
    """Print ``text`` to stderr; once its terminal is closed, drop it and all later lines."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _bar(label: str, rounds: int, done: int) -> Any:
    """Return a bar of tqdm on a terminal; None elsewhere, or without tqdm, which a host that only trains may lack."""
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            tqdm.set_lock(threading.RLock())  # the default lock starts a process
            tqdm.monitor_interval = 0  # no thread
            form = "{desc} {percentage:3.0f}%|{bar}|{postfix}"
            return tqdm(total=rounds, initial=done, desc=label, bar_format=form, dynamic_ncols=True, leave=False)
    return None


class Reporter(Callback):
    """Reports the rounds of the run ``label`` on standard error; ``done`` of them were finished before.

    A terminal has a bar. A log has a line every 15 s, later each time 2 % of the run's time pass.
    """

    interval = 15.0  # least seconds between two lines of a log
    share = 0.02  # least time between two lines of a log, relative to the time since the start

    def __init__(self, label: str, rounds: int, done: int):
        self.label, self.first = label, done
        self.began = time.monotonic()
        self.logged = float("-inf")
        self.bar = _bar(label, rounds, done)
        self.progress = Progress(done, rounds)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError):
                self.bar.close()
            say(f"{self.label}: {self.progress}")

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        progress, done = self.progress, simulation.round
        progress.line = line or progress.line
        now = time.monotonic() - self.began
        progress.round, progress.pace = done, now / max(1, done - self.first)
        if self.bar is not None:
            self.bar.n = done
            with contextlib.suppress(OSError):  # a closed terminal
                self.bar.set_postfix_str(str(progress).removeprefix("round "))
        elif done == progress.rounds or now - self.logged >= max(self.interval, self.share * now):
            self.logged = now
            say(f"{self.label}: {progress}")
