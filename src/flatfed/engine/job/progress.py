"""The progress of a training, for bars, logs and `flatfed status`; times and sizes in words."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.runs import record as records


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


@dataclass
class Progress:
    """``round`` of ``rounds`` are done, in ``pace`` seconds each (None: unknown); ``line``: the last of metrics.csv."""

    round: int
    rounds: int
    pace: float | None = None
    line: Mapping[str, float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        evaluated = [name for name in ("test", "validation") if f"{name}_accuracy" in self.line]
        values = {name: 100 * float(self.line[f"{name}_accuracy"]) for name in evaluated}
        at = "" if float(self.line.get("round", self.round)) == self.round else f" (round {self.line['round']})"
        accuracy = "".join(f"{name} accuracy {value:.2f} %{at}  " for name, value in values.items())
        pace = "time left not known yet"
        if self.pace is not None:
            pace = f"{self.pace:.3g} s a round  {duration(self.pace * (self.rounds - self.round))} left"
        return f"round {self.round}/{self.rounds}  {accuracy}{pace}"


def read(folder: Path) -> Progress | None:
    """Return the progress that the unfinished training in ``folder`` wrote last, if any."""
    with contextlib.suppress(OSError, DataError):
        record = records.read(folder / records.RECORD_SO_FAR)
        with open(folder / records.LINES_SO_FAR, encoding="utf-8", newline="") as file:
            line = [{}, *csv.DictReader(file)][-1]
        done, seconds = record.rounds_done, record.seconds
        return Progress(done, record.config.rounds, seconds / done if done and seconds is not None else None, line)
    return None


def time_spent(seconds: dict[str, float]) -> str:
    total = sum(seconds.values())
    parts = ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in seconds.items() if total)
    return f"done in {duration(total)}" + (f": {parts}" if parts else "")
