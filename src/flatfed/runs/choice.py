"""``choice.json``: the points of a grid and the one that was chosen; before that, the points to choose from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from flatfed import forms
from flatfed.files import read_sealed, write_sealed
from flatfed.forms import some, whole

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
class TuningChoice:
    """A search: of ``row`` in ``protocol`` on ``split``, over the ``grid``; ``chosen``: the values, None before.

    ``validation`` is the share of a client's training images that was held out; ``accuracy`` the column of metrics.csv
    that decides, its mean over the last ``window`` evaluated rounds.
    """

    scale: str
    protocol: str
    split: str
    row: str
    seed: Annotated[int, whole(0)]
    validation: float
    grid: dict[str, list[float]]
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
