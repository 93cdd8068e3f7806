"""``timing.json``: seconds of a round, measured in a separate run for each protocol, split and algorithm."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import ConfigDict, Field

from flatfed.config.document import JsonDocument
from flatfed.config.values import Count, Device, Natural, Number, Positive, Version
from flatfed.files import read_sealed, write_sealed
from flatfed.runs.run_config import RunConfig

TIMING = "timing.json"

FORMAT = 4


class Timing(JsonDocument):
    """Wall seconds of a round: means over ``rounds`` after ``warm_up`` rounds; other fields as in ``RunRecord``.

    ``format``: files of others hold other seconds. ``seconds_per_round`` includes training, loading and evaluation;
    ``training_seconds`` lists the rounds. ``clients``: per round. ``evaluated``: the evaluation of this measurement.
    ``warning``: the machine was busy before.
    """

    model_config = ConfigDict(populate_by_name=True)

    format: Literal[FORMAT]
    config: RunConfig = Field(alias="description")
    rounds: Count
    warm_up: Natural
    clients: Count
    evaluated: dict[str, Any]
    seconds_per_round: Positive
    training_seconds_per_round: Positive
    evaluation_seconds_per_round: Number
    training_seconds: list[Number]
    warning: str | None = None
    versions: dict[str, Version] | None = None
    device: Device
    threads: Count
    executor: str
    precision: str
    parameters: Count
    host: dict[str, Any]
    libraries: dict[str, str] | None = None

    @property
    def machine(self) -> str:
        """Device and name of the machine."""
        name = self.host["gpu"] if self.device == "cuda" else f"{self.host['processor']}, {self.threads} threads"
        return f"{self.device} ({name})"


def write(path: str | os.PathLike[str], timing: Timing) -> None:
    """Write ``timing`` with its seal to ``path``, atomically."""
    write_sealed(path, timing.as_json())


def read(path: str | os.PathLike[str]) -> Timing:
    """Return the timing in ``path``; FileNotFoundError without it, DataError for another or an edited file."""
    remedy = f"rebuild it: snakemake --cores 1 -R {path} -- {path}"
    return read_sealed(Timing.of_json, path, "the seconds of a round", remedy)
