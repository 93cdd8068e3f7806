"""Folders of runs: their records, the metrics next to them, the runs that are requested, and the state of a run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from flatfed.errors import ConfigError, DataError
from flatfed.plan import Experiment
from flatfed.runs import record as records
from flatfed.runs.paths import RunIds, analyses_beside, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord, read_again, read_finished
from flatfed.runs.run import Run
from flatfed.tables.readings import read_history

#: Label of the protocol variant in bfloat16.
BFLOAT16 = "~bfloat16"


def find(top: Path, so_far: bool = False) -> list[Path]:
    """Return the folders of finished runs in ``top``; ``so_far``: then those of others. No hidden runs.

    Symbolic links are followed, and a folder with several paths is listed once.
    """
    names = (RECORD, RECORD_SO_FAR) if so_far else (RECORD,)
    visited: set[str] = set()
    records: list[Path] = []
    for folder, below, files in os.walk(top, followlinks=True):
        new = (real := os.path.realpath(folder)) not in visited
        visited.add(real)
        below[:] = sorted(name for name in below if new and name[0] != ".")
        records += [Path(folder, name) for name in names if new and name in files]
    records.sort(key=lambda file: (names.index(file.name), file))
    return list(dict.fromkeys(file.parent for file in records))


def read(folder: Path, *fields: str) -> RunRecord:
    """Return the record in ``folder``, also if its run is unfinished.

    :raises DataError: it is missing, damaged or without one of ``fields``.
    """
    finished, so_far = folder / RECORD, folder / RECORD_SO_FAR
    file = so_far if so_far.exists() and not finished.exists() else finished
    record = read_finished(folder) if file == finished else records.read(file)
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

    A run of the variant in bfloat16 may serve its protocol (:meth:`Experiment.shown`); of several runs, the first by
    :func:`rank` does. ``trained``: rules and files after -R of Snakemake, which trains their runs.

    :raises DataError: a record is damaged.
    """
    folders = [folder for top in experiment.request.published for folder in find(Path(top))]
    ended = [(record, str(folder)) for folder in folders if (record := read_finished(folder)).ended]
    runs: dict[str, list[str]] = {}
    for record, folder in sorted(ended, key=lambda item: rank(item[0])):
        for ids in dict.fromkeys([record.config.ids, plain(record.config.ids)]):
            runs.setdefault(experiment.paths.run(ids), []).append(folder)
    again = runs if "train" in trained else {*map(os.path.dirname, trained)}
    missing = (path for path in runs if path not in again and not Path(path, RECORD).exists())
    return replace(experiment, published={path: runs[path] for path in missing})


def records_in(tops: Iterable[Path], so_far: bool) -> tuple[dict[str, RunRecord], dict[str, str]]:
    """Return the records by run folder, finished and long ones first, and the reasons for refused runs."""
    records, refused = {}, {}
    for folder in (folder for top in tops for folder in find(top, so_far)):
        try:
            records[str(folder)] = read_again(partial(read_with_metrics, folder), so_far)
        except DataError as problem:
            refused[str(folder)] = str(problem)
    return dict(sorted(records.items(), key=lambda item: rank(item[1])[:2])), refused


def rank(record: RunRecord) -> tuple[bool, int, str]:
    """Return the place of a run: finished ones first, then long ones, then early ones."""
    return not record.ended, -record.rounds_done, record.finished or ""


def select(
    records: Mapping[str, RunRecord], experiment: Experiment, requested: Collection[RunIds]
) -> tuple[dict[RunIds, Run], dict[str, str]]:
    """Return the first runs that are requested, also in bfloat16, and the reasons for the others.

    The runs have one dataset and, for each split and seed, one partition.
    """
    runs, left_out, digests = {}, {}, {}
    for folder, record in records.items():
        ids = record.config.ids
        served = ids if ids in requested else plain(ids)
        if served not in requested:
            continue
        try:
            run = experiment.run(**vars(served))
        except ConfigError as problem:
            left_out[folder] = str(problem)
            continue
        data = {
            ("dataset_digest", record.config.dataset.name): record.dataset_digest,
            ("partition_digest", without_label(ids.protocol), ids.split, ids.seed): record.partition_digest,
        }
        others = [key for key, digest in data.items() if digests.get(key, digest) != digest]
        run = replace(run, protocol=ids.protocol, config=run.config.in_form_of(record.config))
        if different := record.config.deciding_differences(run.config):
            left_out[folder] = f"not the requested run: {'; '.join(different)}"
        elif others:
            key = others[0]
            differs = f"{key[0]} is {data[key][:12]}, of the shown runs {digests[key][:12]}"
            left_out[folder] = f"trained on other data: {differs}"
        elif ids in runs:
            other = runs[ids].path
            left_out[folder] = f"not used: {record.rounds_done} rounds, {other} is shown: {records[other].rounds_done}"
        else:
            digests |= data
            runs[ids] = replace(run, path=folder, analysis_folder=analyses_beside(folder), partition=None)
    return runs, left_out


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
