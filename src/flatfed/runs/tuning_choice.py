"""``choice.json``: the points of a hyper-parameter search and the chosen one."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Annotated

from flatfed import forms
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import some, whole
from flatfed.runs.paths import Paths

#: Key of the seal; finished searches have this one.
SEAL_KEY = "choice_sha256"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of the grid and the folder of its ``run``.

    ``accuracy`` on the validation images is a fraction, the mean over the last evaluated rounds. It is None before
    training, and if the run diverged.
    """

    values: dict[str, float]
    run: str
    description_digest: str
    accuracy: float | None = None
    diverged_at: Annotated[int, whole(1)] | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search over ``grid``: key -> values; ``validation``: the held-out share of each client's training images."""

    scale: str
    protocol: str
    split: str
    row: str
    seed: Annotated[int, whole(0)]
    validation: float
    grid: dict[str, list[float]]

    def combinations(self) -> dict[str, dict[str, float]]:
        """Return the points of the grid by id, as ``learning_rate=0.1,alpha=0.01``; the last key varies fastest."""
        points = (dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values()))
        return {",".join(f"{key}={value:g}" for key, value in point.items()): point for point in points}

    def folder(self, paths: Paths) -> str:
        return paths.search(self.scale, self.protocol, self.split, self.row)


@dataclass(frozen=True, kw_only=True)
class TuningChoice(Search):
    """A search with its ``points`` and, after comparing the runs, the ``chosen`` values.

    ``accuracy``: the column of metrics.csv whose mean over the last ``window`` evaluated rounds decides.
    """

    window: Annotated[int, whole(1)]
    points: Annotated[list[Point], some(Point)]
    accuracy: str = "validation_accuracy"
    chosen: dict[str, float] | None = None


def write(path: str | os.PathLike[str], choice: TuningChoice) -> None:
    """Write ``choice`` with its seal to ``path``, atomically."""
    write_sealed(path, forms.plain(choice), SEAL_KEY)


def read(path: str | os.PathLike[str]) -> TuningChoice:
    """Return the choice in ``path``; FileNotFoundError without it, DataError for a damaged or edited file."""
    remedy = f"delete it and rebuild it: snakemake --cores all {path}"
    return read_sealed(forms.reader(TuningChoice), path, "a choice", remedy, SEAL_KEY)
