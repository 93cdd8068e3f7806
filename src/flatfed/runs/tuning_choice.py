"""``choice.json``: the points of a hyper-parameter search and the chosen one."""

from __future__ import annotations

import itertools
import os
from typing import Annotated

from flatfed.config.document import JsonDocument
from flatfed.config.values import Count, Natural, NotEmpty, Number
from flatfed.files import read_sealed, write_sealed
from flatfed.runs.paths import Paths

#: Key of the seal; finished searches have this one.
SEAL_KEY = "choice_sha256"


class Point(JsonDocument):
    """A point of the grid and the folder of its ``run``.

    ``accuracy`` on the validation images is a fraction, the mean over the last evaluated rounds. It is None before
    training, and if the run diverged.
    """

    values: dict[str, Number]
    run: str
    description_digest: str
    accuracy: float | None = None
    diverged_at: Count | None = None


class Search(JsonDocument):
    """A search over ``grid``: key -> values; ``validation``: the held-out share of each client's training images."""

    scale: str
    protocol: str
    split: str
    row: str
    seed: Natural
    validation: Number
    grid: dict[str, list[Number]]

    def combinations(self) -> dict[str, dict[str, float]]:
        """Return the points of the grid by id, as ``learning_rate=0.1,alpha=0.01``; the last key varies fastest."""
        points = (dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values()))
        return {",".join(f"{key}={value:g}" for key, value in point.items()): point for point in points}

    def folder(self, paths: Paths) -> str:
        return paths.search(self.scale, self.protocol, self.split, self.row)


class TuningChoice(Search):
    """A search with its ``points`` and, after comparing the runs, the ``chosen`` values.

    ``accuracy``: the column of metrics.csv whose mean over the last ``window`` evaluated rounds decides.
    """

    window: Count
    points: Annotated[list[Point], NotEmpty]
    accuracy: str = "validation_accuracy"
    chosen: dict[str, Number] | None = None


def write(path: str | os.PathLike[str], choice: TuningChoice) -> None:
    """Write ``choice`` with its seal to ``path``, atomically."""
    write_sealed(path, choice.as_json(), SEAL_KEY)


def read(path: str | os.PathLike[str]) -> TuningChoice:
    """Return the choice in ``path``; FileNotFoundError without it, DataError for a damaged or edited file."""
    remedy = f"delete it and rebuild it: snakemake --cores all {path}"
    return read_sealed(TuningChoice.of_json, path, "a choice", remedy, SEAL_KEY)
