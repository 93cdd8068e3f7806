"""``choice.json``: the points of a grid and the one that was chosen; before that, the points to choose from."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Annotated

from flatfed import forms
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import some, whole
from flatfed.runs.places import Places

#: Key of the seal, by which an edited choice is known: finished searches have it under a name of its own.
OWN = "choice_sha256"


@dataclass(frozen=True, kw_only=True)
class Point:
    """The ``values`` of a point and the folder of its ``run``; once it is scored, its accuracy on the validation parts.

    ``accuracy`` is a fraction, the mean over the last evaluated rounds, None where the run diverged.
    """

    values: dict[str, float]
    run: str
    description_digest: str
    accuracy: float | None = None
    diverged_at: Annotated[int, whole(1)] | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """One choice to make: of ``row`` in ``protocol`` on ``split``, over the ``grid`` of keys and values.

    ``seed`` is that of the tuning runs, ``validation`` the share of a client's training images that is held out.
    """

    scale: str
    protocol: str
    split: str
    row: str
    seed: Annotated[int, whole(0)]
    validation: float
    grid: dict[str, list[float]]

    def combinations(self) -> dict[str, dict[str, float]]:
        """Return the points of the grid by id, as in ``learning_rate=0.1,alpha=0.01``; the last key varies fastest."""
        points = (dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values()))
        return {",".join(f"{key}={value:g}" for key, value in point.items()): point for point in points}

    def folder(self, places: Places) -> str:
        """Return the folder of the search's runs and of its choice."""
        return places.search(self.scale, self.protocol, self.split, self.row)


@dataclass(frozen=True, kw_only=True)
class TuningChoice(Search):
    """A search with its ``points``, and the values ``chosen``, None before.

    ``accuracy`` is the column of metrics.csv that decides, its mean over the last ``window`` evaluated rounds.
    """

    window: Annotated[int, whole(1)]
    points: Annotated[list[Point], some(Point)]
    accuracy: str = "validation_accuracy"
    chosen: dict[str, float] | None = None


def write(path: str | os.PathLike[str], choice: TuningChoice) -> None:
    """Write ``choice`` to ``path``, whole, with a sum of its own."""
    write_sealed(path, forms.plain(choice), OWN)


def read(path: str | os.PathLike[str]) -> TuningChoice:
    """Return the choice in the file ``path``.

    :raises FileNotFoundError: there is none.
    :raises DataError: it cannot be read, or is not what was written.
    """
    remedy = f"delete it and make it again: snakemake --cores all {path}"
    return read_sealed(forms.reader(TuningChoice), path, "a choice", remedy, OWN)
