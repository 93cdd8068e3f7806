"""Folders of runs: their records, the metrics next to them, and the state of a run."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from flatfed.errors import DataError
from flatfed.plan import Experiment
from flatfed.runs import record as records
from flatfed.runs.paths import RunIds
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord
from flatfed.runs.run import Run
from flatfed.tables.readings import read_history

#: Label of the protocol variant in bfloat16.
BFLOAT16 = "~bfloat16"


def find(top: Path, so_far: bool = False) -> list[Path]:
    """Return the folders of finished runs in ``top``; ``so_far``: then those of others. No tuning or hidden runs."""
    names = (RECORD, RECORD_SO_FAR) if so_far else (RECORD,)
    folders = dict.fromkeys(file.parent for name in names for file in sorted(top.rglob(name)))
    parts = {folder: folder.relative_to(top).parts for folder in folders}
    return [folder for folder in folders if not any(part[0] == "." or part == "tuning" for part in parts[folder])]


def read(folder: Path, *fields: str) -> RunRecord:
    """Return the record in ``folder``, also if its run is unfinished.

    :raises DataError: it is missing, damaged or without one of ``fields``.
    """
    finished, so_far = folder / RECORD, folder / RECORD_SO_FAR
    file = so_far if so_far.exists() and not finished.exists() else finished
    record = records.read_finished(folder) if file == finished else records.read(file)
    record.require(fields, file)
    return record


def read_with_metrics(folder: Path, *fields: str) -> RunRecord:
    """Return :func:`read`; DataError also if the metrics are damaged or changed."""
    record = read(folder, *fields)
    read_history(folder, record, ("round",), every=True)
    return record


def plain(ids: RunIds) -> RunIds:
    """Return the ids of a run without the label of the protocol's variant in bfloat16."""
    return replace(ids, protocol=ids.protocol.removesuffix(BFLOAT16))


def with_published(experiment: Experiment, trained: Collection[str] = ()) -> Experiment:
    """Return ``experiment`` with the finished runs in ``published:`` of config.yaml that results/ lacks.

    A run in bfloat16 also serves the protocol in float32. ``trained``: rules and files after -R of Snakemake, which
    trains their runs.

    :raises DataError: a record is damaged.
    """
    folders = [folder for top in experiment.request.published for folder in find(Path(top))]
    ended = [(record.config.ids, folder) for folder in folders if (record := records.read_finished(folder)).ended][::-1]
    runs = {experiment.paths.run(ids): str(at) for ids, at in [*((plain(ids), at) for ids, at in ended), *ended]}
    again = runs if "train" in trained else {*map(os.path.dirname, trained)}
    missing = (path for path in runs if path not in again and not Path(path, RECORD).exists())
    return replace(experiment, published={path: runs[path] for path in missing})


def state(run: Run, analysed: bool = False) -> str:
    """Return the state of a run: "finished", "begun", "stale", "damaged" or "missing".

    "stale": of other settings; "damaged": run.json is not a record. An ``analysed`` run without model is missing,
    except a published one, which has its analyses.
    """
    try:
        record = records.read(run.record)
    except FileNotFoundError:
        folder = Path(run.path)
        return "begun" if folder.is_dir() and any(folder.iterdir()) else "missing"
    except DataError:
        return "damaged"
    if analysed and run.path == run.in_results.path and not Path(run.model).exists():
        return "missing"
    if record.config.deciding_differences(run.config):
        return "stale"
    return "finished" if record.ended else "begun"
