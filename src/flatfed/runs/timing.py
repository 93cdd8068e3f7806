"""``timing.json``: seconds of a round, measured in a separate run for each protocol, split and algorithm."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

from flatfed import forms
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import Form, above, named, whole

TIMING = "timing.json"

FORMAT = 4
READABLE = Form(f"{FORMAT}; others hold other seconds", lambda value: type(value) is int and value == FORMAT)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Wall seconds of a round: means over ``rounds`` after ``warm_up`` rounds; other fields as in ``RunRecord``.

    ``seconds_per_round`` includes training, loading and evaluation; ``training_seconds`` lists the rounds. ``clients``:
    per round. ``evaluated``: the evaluation of this measurement. ``warning``: the machine was busy before.
    """

    format: Annotated[int, READABLE] = FORMAT
    description: dict[str, Any]
    rounds: Annotated[int, whole(1)]
    warm_up: Annotated[int, whole(0)]
    clients: Annotated[int, whole(1)]
    evaluated: dict[str, Any]
    seconds_per_round: Annotated[float, above(0)]
    training_seconds_per_round: Annotated[float, above(0)]
    evaluation_seconds_per_round: float
    training_seconds: list[float]
    warning: str | None = None
    versions: dict[str, int | str] | None = None
    device: Annotated[str, named("device", ("cpu", "cuda"))]
    threads: Annotated[int, whole(1)]
    executor: str
    precision: str
    parameters: Annotated[int, whole(1)]
    host: dict[str, Any]
    libraries: dict[str, str] | None = None

    @property
    def machine(self) -> str:
        """Device and name of the machine."""
        name = self.host["gpu"] if self.device == "cuda" else f"{self.host['processor']}, {self.threads} threads"
        return f"{self.device} ({name})"


def write(path: str | os.PathLike[str], timing: Timing) -> None:
    """Write ``timing`` with its seal to ``path``, atomically."""
    write_sealed(path, {"format": timing.format, **forms.plain(timing)})


def read(path: str | os.PathLike[str]) -> Timing:
    """Return the timing in ``path``; FileNotFoundError without it, DataError for another or an edited file."""
    remedy = f"rebuild it: snakemake --cores 1 -R {path} -- {path}"
    return read_sealed(forms.reader(Timing), path, "the seconds of a round", remedy)
