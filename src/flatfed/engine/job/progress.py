"""Progress of a training: lines for its log, and its present state in a file, for whoever looks on from outside."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.files import read_json

#: File in a run's folder, there while it is trained (and after a SIGKILL); progress bars and `flatfed status` read it.
STATE = "progress.json"


def duration(seconds: float) -> str:
    """Return a time as a person would say it: ``48 s``, ``12 min``, ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@dataclass
class Progress:
    """How far the training of ``run``, its label, is: ``round`` of ``rounds`` are done, on ``host``.

    ``accuracy`` (0 to 1) is the last one on ``unseen`` images ("test", "validation"), both None before the first
    evaluation; ``pace`` the seconds of a round since this session began, None before its first.
    """

    run: str
    round: int
    rounds: int
    pace: float | None
    accuracy: float | None
    unseen: str | None
    host: str

    @property
    def left(self) -> str | None:
        """How long the rounds that are left will take, in words; None where the pace is not known."""
        return None if self.pace is None else duration(self.pace * (self.rounds - self.round))

    def __str__(self) -> str:
        """Round, accuracy, seconds of a round, time left."""
        accuracy = "" if self.accuracy is None else f"{self.unseen} accuracy {100 * self.accuracy:.2f} %  "
        left = "time left not known yet" if self.pace is None else f"{self.pace:.3g} s a round  {self.left} left"
        return f"round {self.round}/{self.rounds}  {accuracy}{left}"


def read(folder: Path) -> Progress | None:
    """Return how far the training in ``folder`` is, None where there is none."""
    try:
        return forms.read(Progress, read_json(folder / STATE), "it")
    except (OSError, DataError):  # gone since, or a disk so full that it is empty
        return None


def spent(seconds: dict[str, float]) -> str:
    """Return what a finished run has spent its ``seconds`` on, by name, over all of its sessions."""
    total = sum(seconds.values())
    parts = ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in seconds.items() if total)
    return f"done in {duration(total)}" + (f": {parts}" if parts else "")


class Reporter:
    """Reports the rounds of one run, ``done`` of them made before: on standard error, and in its ``folder``.

    On a terminal the line rewrites itself. In a log there is one every 15 s, later one each time 2 % of the run's time
    have gone by: some three hundred for days of training. ``with`` it: the file is removed at the end.
    """

    interval = 15.0  # seconds between two lines of a log, at least
    share = 0.02  # of the time since the beginning, between two lines of a log, at least
    pulse = 1.0  # seconds between two states in the folder, at least

    def __init__(self, label: str, rounds: int, done: int, folder: Path):
        self.folder = folder
        self.first = done
        self.began = time.monotonic()
        self.logged = self.noted = float("-inf")
        self.terminal = sys.stderr.isatty()
        self.progress = Progress(label, done, rounds, None, None, None, socket.gethostname())

    def __enter__(self) -> Reporter:
        self._note()
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal:
            print(file=sys.stderr)
        with contextlib.suppress(OSError):
            (self.folder / STATE).unlink()

    def round(self, done: int, line: dict[str, Any] | None) -> None:
        """Report that ``done`` rounds are finished; ``line`` is the round's line of metrics, if it has one."""
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
            print(f"\r\033[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)
        elif done == progress.rounds or now - self.logged >= max(self.interval, self.share * now):
            self.logged = now
            print(text, file=sys.stderr, flush=True)

    def _note(self) -> None:
        """Write the state, whole; of a disk that takes no more the checkpoint complains, not this."""
        part = self.folder / f".{STATE}.part"
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(forms.plain(self.progress)), encoding="utf-8")
            part.replace(self.folder / STATE)
