"""Chooses the point of a tuning grid with the best accuracy on the validation parts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.runs import record as records
from flatfed.runs import tuning_choice
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.runs.tuning_choice import Point, TuningChoice
from flatfed.tables.readings import read_history


def make(search: TuningChoice, runs: Sequence[Run], out: str | os.PathLike[str]) -> None:
    """Compare the ``runs`` of a search's points, write the choice to ``out``, and print it.

    Diverged runs lose; among equal runs the first in the grid wins.

    :raises DataError: a run is absent, unfinished or another run, or all runs diverged.
    """
    where = f"{search.row} on {search.split} of {search.protocol}"
    scored = [_scored(point, run, search) for point, run in zip(search.points, runs, strict=True)]
    for key in ("dataset_digest", "partition_digest"):
        if len(digests := {getattr(record, key) for _, record in scored}) > 1:
            listed = ", ".join(sorted(digest[:12] for digest in digests))
            raise DataError(f"{where}: points were trained on different data ({key} {listed})")
    for point, record in scored:
        if text := versions.changes(record.config, record.versions):
            print(f"{point.run}: {text}")
    points = [point for point, _ in scored]
    for point in points:
        diverged = f"diverged in round {point.diverged_at}"
        print(f"{_in_words(point)}: {diverged if point.accuracy is None else format(point.accuracy, '.4f')}")
    finished = [point for point in points if point.accuracy is not None]
    if not finished:
        raise DataError(f"{where}: all {len(points)} points of the grid diverged; change tune.grids")
    best = max(finished, key=lambda point: point.accuracy)
    tuning_choice.write(out, search.model_copy(update={"points": points, "chosen": best.values}))
    print(f"Chosen for {where}: {_in_words(best)}, validation accuracy {100 * best.accuracy:.2f} %")


def _in_words(point: Point) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in point.values.items())


def _scored(point: Point, run: Run, search: TuningChoice) -> tuple[Point, RunRecord]:
    """Return a point with the accuracy of its run, and the run's record."""
    folder = Path(run.path)
    record = records.read_finished(folder)
    record.check_config(run.record, run.config)
    if not record.ended:
        raise DataError(f"{folder} has done {record.rounds_done} of {record.config.rounds} rounds")
    accuracy = None
    if record.diverged_at is None:
        history = read_history(folder, record, ("round", search.accuracy))[search.accuracy]
        accuracy = fmean(history[-search.window :])
    result = {"accuracy": accuracy, "diverged_at": record.diverged_at}
    return point.model_copy(update={**result, "description_digest": digest_json(record.config.as_json())}), record
