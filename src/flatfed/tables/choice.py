"""The choice that a search ends with: the point of the grid with the best accuracy on the validation parts.

What it takes, plain JSON, as :func:`flatfed.experiment.tuning.choice_spec` returns it::

    {"scale": "preview", "protocol": "fedsam-cifar10", "split": "dir0.6-100-p20", "row": "fedsam",
     "seed": 1, "validation": 0.1, "grid": {"learning_rate": [0.1, 0.01]}, "window": 1,
     "accuracy": "validation_accuracy",           # or client_validation_accuracy: the column of metrics.csv
     "points": [{"values": {"learning_rate": 0.1}, "run": "results/...", "description_digest": "..."}, ...]}

The choice is that with, for every point, its ``accuracy`` (a fraction; the mean over the last ``window`` evaluated
rounds, null where the run diverged), ``diverged_at`` and ``code_digest``, with the values ``chosen``, and with the
SHA-256 of all that.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean
from typing import Any

from flatfed.errors import DataError
from flatfed.files import digest_json, sealed, write_json
from flatfed.runs import record as records
from flatfed.tables.readings import hold_rounds, read_metrics

#: Key of a choice that holds the SHA-256 of all else in it, by which an edited one is known.
OWN = "choice_sha256"


def make(spec: dict[str, Any], out: str | os.PathLike[str]) -> None:
    """Compare the runs of ``spec`` and write the choice to ``out``, whole, and to standard output in words.

    A run that diverged loses to any that did not; of equal ones, the first in the grid is chosen.

    :raises DataError: a run is not there, unfinished or not the one asked for, or all of them diverged.
    """
    points = [{**point, **_scored(Path(point["run"]), point["description_digest"], spec)} for point in spec["points"]]
    for key in ("dataset_digest", "partition_digest"):
        if len(digests := {point.pop(key) for point in points}) > 1:
            said = ", ".join(sorted(digest[:12] for digest in digests))
            raise DataError(f"{spec['row']} on {spec['split']}: points were trained on different data ({key} {said})")
    finished = [point for point in points if point["accuracy"] is not None]
    for point in points:
        end = f"diverged in round {point['diverged_at']}"
        print(f"{_said(point)}: {end if point['accuracy'] is None else format(point['accuracy'], '.4f')}")
    if not finished:
        raise DataError(
            f"{spec['row']} in {spec['protocol']} on {spec['split']}: all {len(points)} points of the grid diverged; "
            "nothing can be chosen: give others under tune.grids"
        )
    best = max(finished, key=lambda point: point["accuracy"])
    write_json(out, sealed({**spec, "points": points, "chosen": best["values"]}, OWN))
    place = f"{spec['row']} on {spec['split']} of {spec['protocol']}"
    print(f"Chosen for {place}: {_said(best)}, validation accuracy {100 * best['accuracy']:.2f} %")


def _said(point: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in point["values"].items())


def _scored(folder: Path, digest: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy, round of divergence, code and data of the run in ``folder``."""
    path = folder / records.RECORD
    about = records.of(folder)
    rounds, done, diverged = about.description["rounds"], about.rounds_done, about.diverged_at
    if digest_json(about.description) != digest:
        raise DataError(f"{path}: is of another run than the grid asks for; make it again: snakemake --cores 1 {path}")
    if diverged is None and done < rounds:
        raise DataError(f"{folder} has done {done} of {rounds} rounds")
    accuracy = None
    if diverged is None:
        about.hold(folder, records.METRICS)
        history = read_metrics(folder / records.METRICS, ("round", spec["accuracy"]))
        hold_rounds(folder, about, history)
        accuracy = fmean(history[spec["accuracy"]][-spec["window"] :])
    digests = {key: getattr(about, key) for key in ("code_digest", "dataset_digest", "partition_digest")}
    return {"accuracy": accuracy, "diverged_at": diverged, **digests}
