"""``flatfed table TABLE --runs FOLDER``: a table from the metrics and records of a folder of runs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from flatfed import plan
from flatfed.commands import configuration, run_folders
from flatfed.errors import ConfigError, DataError
from flatfed.plan import Experiment, at_scale, lookup, run_specs
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.plan.units import plural
from flatfed.runs.paths import RunIds, analyses_beside, without_label
from flatfed.runs.record import RunRecord, read_again
from flatfed.runs.run import Run
from flatfed.tables import blocks
from flatfed.tables.blocks import TypesetTable


def make(options: argparse.Namespace) -> tuple[TypesetTable, list[str]]:
    """Return the table of the runs in a folder, and messages: a summary, then the refused runs with reasons.

    The runs of a cell and of its base row have the precision of the longest; of equally long ones, that of the run
    which finished first. The default scale is that of the longest run.

    :raises DataError: the folder has no run of the table.
    """
    records, refused = read([options.runs], options.so_far)
    seeds = sorted({record.config.seed for record in records.values()})
    experiment = plan.load(configuration.HOME, {**configuration.read(options.config), "seeds": seeds or [1]})
    table = lookup.entry("table", options.table, experiment.tables, "config/tables")
    protocols = table.protocols
    configs = [record.config for record in records.values()]
    scales = [config.scale for config in configs if config.protocol.removesuffix(run_folders.BFLOAT16) in protocols]
    scale = options.scale or next(iter(scales), "preview")
    of_table = numbers(experiment, scale, table.id)
    timed = {number.column for number in of_table if number.all_timed}  # a folder of runs has no timings
    of_table = [number for number in of_table if number.column not in timed]
    runs, left_out = select(records, experiment, {run.config.ids for run in runs_of(of_table).values()})
    cells = [_with_runs(cell, runs, records) for cell in by_cell(of_table).values()]
    placed = runs_of(number for cell in cells for number in cell).values()
    shown = {run.path: records[run.path] for run in placed if not run.absent}
    unused = [run.path for run in runs.values() if run.path not in shown]
    left_out |= dict.fromkeys(unused, "not used: its cell has another precision")
    reasons = [f"not shown: {folder}: {reason}" for folder, reason in (refused | left_out).items()]
    with_runs = {number.column for cell in cells for number in cell if not all(run.absent for run in number.runs)}
    if not with_runs:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        raise DataError("\n".join([f"{options.runs}: no run of table {table.id} among {len(records)}{hint}", *reasons]))
    columns = [column for column in table.columns if column in with_runs]
    spec = at_scale.table(experiment, scale, table.id, columns)
    # The records count the images, not the data of this machine.
    datasets = {name: replace(dataset, manifest=None) for name, dataset in spec.datasets.items()}
    summary, notes = _summary(shown.values()), spec.notes
    if len(columns) < len(table.columns):  # replace the note about the configuration's columns
        notes = [f"Shown: {len(columns)} of its {len(table.columns)} columns, those with runs.", *notes[1:]]
    title = f"{spec.title} ({summary})" if options.so_far else spec.title
    cells = [_of_seeds(cell, shown, options.so_far) for cell in cells if cell[0].column in with_runs]
    spec = replace(spec, datasets=datasets, notes=notes, title=title, numbers=[n for cell in cells for n in cell])
    counts = f"{plural(len(shown), 'run')}; {len(records) - len(shown) - len(left_out)} others are not of this table"
    messages = [f"{table.id}, {scale} scale: {summary} ({counts})", *reasons]
    return blocks.typeset(spec, so_far=options.so_far), messages


def read(tops: Iterable[Path], so_far: bool) -> tuple[dict[str, RunRecord], dict[str, str]]:
    """Return the records by run folder, finished and long ones first, and the reasons for refused runs."""
    records, refused = {}, {}
    for folder in (folder for top in tops for folder in run_folders.find(top, so_far)):
        try:
            records[str(folder)] = read_again(partial(run_folders.read_with_metrics, folder), so_far)
        except DataError as problem:
            refused[str(folder)] = str(problem)
    return {folder: records[folder] for folder in sorted(records, key=lambda path: _rank(records[path])[:2])}, refused


def _rank(record: RunRecord) -> tuple[bool, int, str]:
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
        if not {ids, run_folders.plain(ids)} & requested:
            continue
        try:
            run = run_specs.run(experiment, **vars(ids))
        except ConfigError as problem:
            left_out[folder] = str(problem)
            continue
        data = {
            ("dataset_digest", record.config.dataset.name): record.dataset_digest,
            ("partition_digest", without_label(ids.protocol), ids.split, ids.seed): record.partition_digest,
        }
        others = [key for key, digest in data.items() if digests.get(key, digest) != digest]
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


def _with_runs(
    cell: list[Number], runs: Mapping[RunIds, Run], records: Mapping[str, RunRecord]
) -> list[Number]:
    """Return the numbers of a ``cell`` with ``runs``, all in the precision of the first by rank, else absent."""
    requested = [run.config.ids for run in runs_of(cell).values()]
    labels = ("", run_folders.BFLOAT16)
    variants = [{ids: replace(ids, protocol=ids.protocol + label) for ids in requested} for label in labels]

    def rank(variant: Mapping[RunIds, RunIds]) -> tuple[bool, int, str]:
        of_cell = (records[runs[ids].path] for ids in variant.values() if ids in runs)
        return min(map(_rank, of_cell), default=(True, 1, ""))

    best = min(variants, key=rank)

    def placed(requested: Iterable[Run]) -> tuple[Run, ...]:
        return tuple(runs.get(best[run.config.ids]) or replace(run, absent=True) for run in requested)

    return [replace(number, runs=placed(number.runs), base_runs=placed(number.base_runs)) for number in cell]


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
    """Return the numbers of seeds, the precisions and the rounds of the shown runs."""
    done, totals = zip(*((record.rounds_done, record.config.rounds) for record in records), strict=True)
    seeds = Counter(record.config.ids.row for record in records).values()
    precisions = " and ".join(sorted({record.config.precision for record in records}))
    return f"n = {_range(seeds)}; {precisions}; {_range(done)} of {_range(totals)} rounds"


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
