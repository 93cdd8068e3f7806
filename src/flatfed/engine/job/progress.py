"""Progress of a training: lines in its log, and a state file for progress bars and `flatfed status`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import time
from pathlib import Path

from pydantic import ConfigDict

from flatfed.config.json_document import JsonDocument
from flatfed.errors import DataError
from flatfed.files import read_json

PROGRESS_FILE = "progress.json"  # in a run's folder during its training, and after a SIGKILL


def duration(seconds: float) -> str:
    """Return ``48 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Progress(JsonDocument):
    """``round`` of ``rounds`` of the run with label ``run`` are done.

    ``accuracy`` (0 to 1): the last one on ``unseen`` images ("test", "validation"); ``pace``: seconds per round of this
    session. All are None before the first value.
    """

    model_config = ConfigDict(frozen=False)

    run: str
    round: int
    rounds: int
    pace: float | None
    accuracy: float | None
    unseen: str | None

    def __str__(self) -> str:
        accuracy = "" if self.accuracy is None else f"{self.unseen} accuracy {100 * self.accuracy:.2f} %  "
        pace = "time left not known yet"
        if self.pace is not None:
            pace = f"{self.pace:.3g} s a round  {duration(self.pace * (self.rounds - self.round))} left"
        return f"round {self.round}/{self.rounds}  {accuracy}{pace}"


def read(folder: Path) -> Progress | None:
    """Return the progress of the training in ``folder``, if any."""
    try:
        return Progress.of_json(read_json(folder / PROGRESS_FILE), "it")
    except (OSError, DataError):  # removed, or empty because the disk is full
        return None


def time_spent(seconds: dict[str, float]) -> str:
    total = sum(seconds.values())
    parts = ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in seconds.items() if total)
    return f"done in {duration(total)}" + (f": {parts}" if parts else "")


def _say(text: str, end: str = "\n") -> None:
    """Print ``text`` to stderr; once its terminal is closed, drop it and all later lines."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class Reporter:
    """Reports the rounds of one run on standard error and in its ``folder``; ``done`` rounds were finished before.

    On a terminal the line rewrites itself. A log has a line every 15 s, later each time 2 % of the run's time pass.
    """

    interval = 15.0  # least seconds between two lines of a log
    share = 0.02  # least time between two lines of a log, relative to the time since the start
    pulse = 1.0  # least seconds between two states in the folder

    def __init__(self, label: str, rounds: int, done: int, folder: Path):
        self.folder = folder
        self.first = done
        self.began = time.monotonic()
        self.logged = self.noted = float("-inf")
        self.terminal = sys.stderr.isatty()
        self.progress = Progress(run=label, round=done, rounds=rounds, pace=None, accuracy=None, unseen=None)

    def __enter__(self) -> Reporter:
        self._note()
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal:
            _say("")
        with contextlib.suppress(OSError):
            (self.folder / PROGRESS_FILE).unlink()

    def round(self, done: int, line: dict[str, float] | None) -> None:
        progress = self.progress
        if line is not None:
            progress.unseen = "validation" if "validation_accuracy" in line else "test"
            progress.accuracy = line[f"{progress.unseen}_accuracy"]
        now = time.monotonic() - self.began
        progress.round, progress.pace = done, now / max(1, done - self.first)
        if now - self.noted >= self.pulse:
            self.noted = now
            self._note()
        text = f"{progress.run}: {progress}"
        if self.terminal:
            columns = shutil.get_terminal_size().columns
            _say(f"\r\033[K{text[: columns - 1]}", end="")
        elif done == progress.rounds or now - self.logged >= max(self.interval, self.share * now):
            self.logged = now
            _say(text)

    def _note(self) -> None:
        part = self.folder / f".{PROGRESS_FILE}.part"
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self.progress.as_json()), encoding="utf-8")
            part.replace(self.folder / PROGRESS_FILE)
