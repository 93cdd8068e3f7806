"""``flatfed table TABLE --runs FOLDER``: a table from the metrics and records of a folder of runs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flatfed import plan
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError
from flatfed.plan import Experiment, at_scale, lookup, run_specs
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.plan.units import plural
from flatfed.runs import identity
from flatfed.runs.paths import RunIds, analyses_beside, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord, read_again
from flatfed.runs.run import Run
from flatfed.tables import blocks
from flatfed.tables.blocks import TypesetTable

#: Label of the protocol variant in bfloat16.
BFLOAT16 = "~bfloat16"

#: Sorts after all runs.
NO_RUN = True, 0, ""


def make(options: argparse.Namespace) -> tuple[TypesetTable, list[str]]:
    """Return the table of the runs in a folder, and messages: a summary, then the refused runs with reasons.

    The runs of a cell and of its base row have the precision of the longest; of equally long ones, that of the run
    which finished first.

    :raises DataError: the folder has no run of the table.
    """
    records, refused = _read(options.runs, options.so_far)
    seeds = sorted({record.config.seed for record in records.values()}) or [1]
    loaded = plan.load(configuration.HOME, {**configuration.read(options.config), "seeds": seeds})
    table = lookup.entry("table", options.table, loaded.tables, "config/tables")
    protocols = table.protocols
    of_table = (run for run in map(_ids, records.values()) if run.protocol.removesuffix(BFLOAT16) in protocols)
    scale = next((run.scale for run in of_table), "preview")
    of_table = numbers(loaded, scale, table.id)
    timed = {number.column for number in of_table if number.all_timed}  # a folder of runs has no timings
    cells = by_cell(number for number in of_table if number.column not in timed).values()
    runs = runs_of(number for cell in cells for number in cell).values()
    candidates = (*runs, *_in_bfloat16(loaded, runs))
    found, left_out = _select(records, {_ids(run): run for run in candidates})

    order = {path: (not made.ended, -made.rounds_done, made.finished or "") for path, made in records.items()}

    def longest(runs: list[Run]) -> dict[str, Run]:
        precisions = runs, _in_bfloat16(loaded, runs)
        placed = [[found.get(_ids(run), replace(run, absent=True)) for run in runs] for runs in precisions]
        best = min(placed, key=lambda runs: min((order[run.path] for run in runs if not run.absent), default=NO_RUN))
        return {run.path: chosen for run, chosen in zip(runs, best, strict=False)}

    cells = [_placed(cell, longest) for cell in cells]
    placed = runs_of(number for cell in cells for number in cell)
    shown = {path: records[path] for path, run in placed.items() if not run.absent}
    unused = [run.path for run in found.values() if run.path not in shown]
    left_out |= dict.fromkeys(unused, "not used: its cell has another precision")
    reasons = [f"not shown: {folder}: {reason}" for folder, reason in (refused | left_out).items()]
    with_runs = {number.column for cell in cells for number in cell if not all(run.absent for run in number.runs)}
    if not with_runs:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        raise DataError("\n".join([f"{options.runs}: no run of table {table.id} among {len(records)}{hint}", *reasons]))
    columns = [column for column in table.columns if column in with_runs]
    layout = at_scale.table(loaded, scale, table.id, columns)
    # The records count the images, not the data of this machine.
    datasets = {name: replace(dataset, manifest=None) for name, dataset in layout.datasets.items()}
    summary = _summary(shown.values())
    notes, title = layout.notes, f"{layout.title} ({summary})" if options.so_far else layout.title
    if len(columns) < len(table.columns):  # replace the note about the configuration's columns
        notes = [f"Shown: {len(columns)} of its {len(table.columns)} columns, those with runs.", *notes[1:]]
    cells = (_of_seeds(cell, shown, options.so_far) for cell in cells if cell[0].column in with_runs)
    of_table = [number for cell in cells for number in cell]
    layout = replace(layout, datasets=datasets, notes=notes, title=title, numbers=of_table)
    counts = f"{plural(len(shown), 'run')}; {len(records) - len(shown) - len(left_out)} others are not of this table"
    messages = [f"{table.id}, {scale} scale: {summary} ({counts})", *reasons]
    return blocks.typeset(layout, so_far=options.so_far), messages


def _ids(run: Run | RunRecord) -> RunIds:
    return run.config.ids


def _read(top: Path, so_far: bool) -> tuple[dict[str, RunRecord], dict[str, str]]:
    """Return the records by run folder, finished and long ones first, and the reasons for refused runs."""
    records, refused = {}, {}
    files = run_folders.record_files([top], RECORD, *([RECORD_SO_FAR] if so_far else []))
    for folder in dict.fromkeys(file.parent for file in files):
        try:
            records[str(folder)] = read_again(partial(_read_one, folder), so_far)
        except DataError as problem:
            refused[str(folder)] = str(problem)
    longest = sorted(records, key=lambda folder: (records[folder].ended, records[folder].rounds_done), reverse=True)
    return {folder: records[folder] for folder in longest}, refused


def _read_one(folder: Path) -> RunRecord:
    return run_folders.read_checking_metrics(run_folders.record_file(folder))


def _placed(cell: list[Number], place: Callable[[list[Run]], dict[str, Run]]) -> list[Number]:
    """Return the numbers of a ``cell`` with the runs that ``place`` returns for the folders of their runs."""
    chosen = place(list(runs_of(cell).values()))
    runs = [tuple(chosen[run.path] for run in number.runs) for number in cell]
    base_runs = [tuple(chosen[run.path] for run in number.base_runs) for number in cell]
    return [replace(number, runs=r, base_runs=b) for number, r, b in zip(cell, runs, base_runs, strict=True)]


def _in_bfloat16(loaded: Experiment, runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return ``runs`` in the variants of their protocols in bfloat16, as far as these exist."""
    ids = (replace(_ids(run), protocol=run.protocol + BFLOAT16) for run in runs)
    return tuple(run_specs.run(loaded, **vars(low)) for low in ids if low.protocol in loaded.catalog.protocols)


def _select(
    records: Mapping[str, RunRecord], requested: Mapping[RunIds, Run]
) -> tuple[dict[RunIds, Run], dict[str, str]]:
    """Return the requested runs in their folders, all on the data of the first, and the reasons for the others."""
    found, left_out, digests = {}, {}, {}
    for folder, record in records.items():
        ids = _ids(record)
        if ids not in requested:
            continue
        data: dict[tuple[Any, ...], str] = {
            ("dataset_digest", record.config.dataset.name): record.dataset_digest,
            ("partition_digest", without_label(ids.protocol), ids.split, ids.seed): record.partition_digest,
        }
        conflict = next((key for key, digest in data.items() if digests.get(key, digest) != digest), None)
        if different := identity.deciding_differences(record.config, requested[ids].config):
            left_out[folder] = f"not the requested run: {'; '.join(different)}"
        elif conflict:
            differs = f"{conflict[0]} is {data[conflict][:12]}, of the shown runs {digests[conflict][:12]}"
            left_out[folder] = f"trained on other data: {differs}"
        elif ids in found:
            other = found[ids].path
            rounds = f"{record.rounds_done} rounds, {other} is shown: {records[other].rounds_done}"
            left_out[folder] = f"not used: {rounds}"
        else:
            beside = analyses_beside(folder)
            found[ids] = replace(requested[ids], path=folder, analysis_folder=beside, partition=None)
            digests |= data
    return {ids: found[ids] for ids in requested if ids in found}, left_out


def _of_seeds(cell: list[Number], shown: Mapping[str, RunRecord], so_far: bool) -> list[Number]:
    """Return the numbers of the seeds of ``shown`` runs; ``so_far``: if possible of complete, then of ended ones."""
    runs = runs_of(cell).values()
    of_table = {record.config.seed for record in shown.values()}
    seeds = [number.seed for number in cell if number.seed in of_table]
    absent = {run.seed for run in runs if run.absent}
    running = {run.seed for run in runs if not run.absent and not shown[run.path].ended}
    needs_target = METRICS[cell[0].metric].needs_target
    for unusable in ([absent] if needs_target else [absent, absent | running]) if so_far else ():
        seeds = [seed for seed in seeds if seed not in unusable] or seeds
    return [number for number in cell if number.seed in (None, *seeds)]


def _summary(records: Collection[RunRecord]) -> str:
    done, totals = zip(*((record.rounds_done, record.config.rounds) for record in records), strict=True)
    seeds = Counter(_ids(record).row for record in records).values()
    precisions = " and ".join(sorted({record.config.precision for record in records}))
    return f"n = {_range(seeds)}; {precisions}; {_range(done)} of {_range(totals)} rounds"


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
