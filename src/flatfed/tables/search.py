"""The choice that a search ends with: the point of the grid with the best accuracy on the validation parts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.runs import record as records
from flatfed.runs import tuning_choice
from flatfed.runs.record import RunRecord
from flatfed.runs.tuning_choice import Point, TuningChoice
from flatfed.tables.readings import history_of


def make(asked: TuningChoice, out: str | os.PathLike[str]) -> None:
    """Compare the runs of a search and write the choice to ``out``, whole, and to standard output in words.

    A run that diverged loses to any that did not; of equal ones, the first in the grid is chosen.

    :raises DataError: a run is not there, unfinished or not the one asked for, or all of them diverged.
    """
    scored = [_scored(point, asked) for point in asked.points]
    for key in ("dataset_digest", "partition_digest"):
        if len(digests := {getattr(record, key) for _, record in scored}) > 1:
            said = ", ".join(sorted(digest[:12] for digest in digests))
            raise DataError(f"{asked.row} on {asked.split}: points were trained on different data ({key} {said})")
    points = [point for point, _ in scored]
    finished = [point for point in points if point.accuracy is not None]
    for point in points:
        end = f"diverged in round {point.diverged_at}"
        print(f"{_in_words(point)}: {end if point.accuracy is None else format(point.accuracy, '.4f')}")
    if not finished:
        raise DataError(
            f"{asked.row} in {asked.protocol} on {asked.split}: all {len(points)} points of the grid diverged; "
            "nothing can be chosen: give others under tune.grids"
        )
    best = max(finished, key=lambda point: point.accuracy)
    tuning_choice.write(out, replace(asked, points=points, chosen=best.values))
    place = f"{asked.row} on {asked.split} of {asked.protocol}"
    print(f"Chosen for {place}: {_in_words(best)}, validation accuracy {100 * best.accuracy:.2f} %")


def _in_words(point: Point) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in point.values.items())


def _scored(point: Point, asked: TuningChoice) -> tuple[Point, RunRecord]:
    """Return a point with what its run came to, and the run's record."""
    folder = Path(point.run)
    path, about = folder / records.RECORD, records.read_finished(folder)
    if digest_json(about.description) != point.description_digest:
        raise DataError(f"{path}: is of another run than the grid asks for; make it again: snakemake --cores 1 {path}")
    if not about.ended:
        raise DataError(f"{folder} has done {about.rounds_done} of {about.description['rounds']} rounds")
    accuracy = None
    if about.diverged_at is None:
        accuracy = fmean(history_of(folder, about, ("round", asked.accuracy))[asked.accuracy][-asked.window :])
    return replace(point, accuracy=accuracy, diverged_at=about.diverged_at), about
