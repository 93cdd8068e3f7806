"""The progress of a training, a file that progress bars and `flatfed status` read; times and sizes in words."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict

from flatfed.config.document import JsonDocument
from flatfed.errors import DataError
from flatfed.files import read_json

PROGRESS_FILE = "progress.json"  # in a run's folder during its training, and after a SIGKILL


def duration(seconds: float) -> str:
    """Return ``48 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def in_units(count: float) -> str:
    """Return ``1.2 GB``, ``3.4 MB`` or ``56 kB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"


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
