"""``flatfed table TABLE --runs FOLDER``: a table from the metrics and records of a folder of runs."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError
from flatfed.experiment import Experiment, cell_specs, lookup, run_specs, scales, table_specs
from flatfed.experiment.model import CellSpec
from flatfed.papers.metrics import METRICS
from flatfed.papers.units import plural
from flatfed.runs import identity
from flatfed.runs.paths import RunIds, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord, read_again
from flatfed.runs.run import Run
from flatfed.tables import blocks, filled_table
from flatfed.tables.blocks import TypesetTable

#: Label of the protocol variant in bfloat16.
BFLOAT16 = "~bfloat16"

#: Sorts after all runs.
NO_RUN = True, 0, ""


def make(options: argparse.Namespace) -> tuple[TypesetTable, list[str]]:
    """Return the table of the runs in a folder, and messages: a summary, then the refused runs with reasons.

    The runs of a cell have the precision of the longest; of equally long ones, that of the run which finished first.

    :raises DataError: the folder has no run of the table.
    """
    records, refused = _read(options.runs, options.so_far)
    seeds = sorted({record.description["seed"] for record in records.values()}) or [1]
    loaded = experiment.load(configuration.HOME, {**configuration.read(options.config), "seeds": seeds})
    table = lookup.entry("table", options.table, loaded.tables, "config/tables")
    ids = map(RunIds.of_description, (record.description for record in records.values()))
    scales_of_table = (run.scale for run in ids if run.protocol.removesuffix(BFLOAT16) in scales.protocols_of(table))
    scale = next(scales_of_table, "preview")
    specs = cell_specs.cells(loaded, scale, table.id)
    # A folder of runs has no timings.
    candidates = (run for spec in specs if not spec.timed for run in (*spec.runs, *_in_bfloat16(loaded, spec.runs)))
    requested = {RunIds.of_description(run.description): run for run in candidates}
    chosen, left_out = _select(records, requested)

    def shortness(run: Run) -> tuple[bool, int, str]:
        record = records.get(chosen.get(RunIds.of_description(run.description)))
        return (not record.ended, -record.rounds_done, record.finished or "") if record else NO_RUN

    def longest(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return min(runs, _in_bfloat16(loaded, runs), key=lambda runs: min(map(shortness, runs), default=NO_RUN))

    specs = [_changed(spec, longest) for spec in specs]
    needed = {RunIds.of_description(run.description) for spec in specs for run in spec.runs}
    left_out |= {chosen.pop(ids): "not used: its cell has another precision" for ids in [*chosen] if ids not in needed}
    paths = {requested[ids].path for ids in chosen}
    shown = {spec.column for spec in specs if not spec.timed for run in spec.sources.runs if run.path in paths}
    columns = [column for column in table.columns if column in shown]
    reasons = [f"not shown: {folder}: {reason}" for folder, reason in (refused | left_out).items()]
    if not columns:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        raise DataError("\n".join([f"{options.runs}: no run of table {table.id} among {len(records)}{hint}", *reasons]))
    summary = _summary([records[folder] for folder in chosen.values()])
    layout = table_specs.table_spec(loaded, scale, table.id, columns)
    # The records count the images, not the data of this machine.
    datasets = {name: replace(dataset, manifest=None) for name, dataset in layout.datasets.items()}
    notes, title = layout.notes, f"{layout.title} ({summary})" if options.so_far else layout.title
    if len(columns) < len(table.columns):  # replace the note about the configuration's columns
        notes = [f"Shown: {len(columns)} of its {len(table.columns)} columns, those with runs.", *notes[1:]]
    layout = replace(layout, datasets=datasets, notes=notes, title=title)
    ended = {ids for ids, folder in chosen.items() if records[folder].ended}
    specs = [_of_seeds(spec, chosen.keys(), ended, options.so_far) for spec in specs if spec.column in columns]
    with _as_results(chosen, requested):
        typeset = blocks.typeset(filled_table.fill(layout, specs, so_far=options.so_far))
    counts = f"{plural(len(chosen), 'run')}; {len(records) - len(chosen) - len(left_out)} others are not of this table"
    return typeset, [f"{table.id}, {scale} scale: {summary} ({counts})", *reasons]


def _read(top: Path, so_far: bool) -> tuple[dict[Path, RunRecord], dict[Path, str]]:
    """Return the records by run folder, finished and long ones first, and the reasons for refused runs."""
    records, refused = {}, {}
    files = run_folders.record_files([top], RECORD, *([RECORD_SO_FAR] if so_far else []))
    for folder in dict.fromkeys(file.parent for file in files):
        try:
            records[folder] = read_again(partial(_read_one, folder), so_far)
        except DataError as problem:
            refused[folder] = str(problem)
    longest = sorted(records.items(), key=lambda item: (item[1].ended, item[1].rounds_done), reverse=True)
    return dict(longest), refused


def _read_one(folder: Path) -> RunRecord:
    return run_folders.read_checking_metrics(run_folders.record_file(folder))


def _changed(spec: CellSpec, change: Callable[[tuple[Run, ...]], Iterable[Run]]) -> CellSpec:
    """Return ``spec`` with changed runs."""
    parts = {"sources": spec.sources, "base_sources": spec.base_sources}
    return replace(spec, **{key: replace(part, runs=tuple(change(part.runs))) for key, part in parts.items()})


def _in_bfloat16(loaded: Experiment, runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Return ``runs`` in the variants of their protocols in bfloat16, as far as these exist."""
    ids = (replace(RunIds.of_description(run.description), protocol=run.protocol + BFLOAT16) for run in runs)
    return tuple(run_specs.run(loaded, **vars(low)) for low in ids if low.protocol in loaded.catalog.protocols)


def _select(
    records: Mapping[Path, RunRecord], requested: Mapping[RunIds, Run]
) -> tuple[dict[RunIds, Path], dict[Path, str]]:
    """Return the folders of the shown runs, all on the data of the first, and the reasons for the others."""
    chosen, left_out, digests = {}, {}, {}
    for folder, record in records.items():
        ids = RunIds.of_description(record.description)
        if ids not in requested:
            continue
        data: dict[tuple[Any, ...], str] = {
            ("dataset_digest", record.description["dataset"]["name"]): record.dataset_digest,
            ("partition_digest", without_label(ids.protocol), ids.split, ids.seed): record.partition_digest,
        }
        conflict = next((key for key, digest in data.items() if digests.get(key, digest) != digest), None)
        if different := identity.deciding_differences(record.description, requested[ids].description):
            left_out[folder] = f"not the requested run: {'; '.join(different)}"
        elif conflict:
            differs = f"{conflict[0]} is {data[conflict][:12]}, of the shown runs {digests[conflict][:12]}"
            left_out[folder] = f"trained on other data: {differs}"
        elif ids in chosen:
            rounds = f"{record.rounds_done} rounds, {chosen[ids]} is shown: {records[chosen[ids]].rounds_done}"
            left_out[folder] = f"not used: {rounds}"
        else:
            chosen[ids] = folder
            digests |= data
    return {ids: chosen[ids] for ids in requested if ids in chosen}, left_out


def _of_seeds(spec: CellSpec, chosen: Collection[RunIds], ended: Collection[RunIds], so_far: bool) -> CellSpec:
    """Return ``spec`` with the seeds of ``chosen``; ``so_far``: if possible of complete, then of ``ended`` runs."""
    requested = [RunIds.of_description(run.description) for run in spec.runs]
    seeds = [seed for seed in spec.seeds if any(ids.seed == seed for ids in chosen)] if requested else spec.seeds
    for available in ([chosen] if METRICS[spec.metric].needs_target else [chosen, ended]) if so_far else ():
        incomplete = {ids.seed for ids in requested if ids not in available}
        seeds = [seed for seed in seeds if seed not in incomplete] or seeds
    spec = _changed(spec, lambda runs: (replace(run, partition=None) for run in runs if run.seed in seeds))
    return replace(spec, seeds=tuple(seeds))


@contextlib.contextmanager
def _as_results(chosen: Mapping[RunIds, Path], requested: Mapping[RunIds, Run]) -> Iterator[None]:
    """Change to a folder whose results/ contains only the ``chosen`` runs and their analyses."""
    with tempfile.TemporaryDirectory() as results:
        for ids, folder in chosen.items():
            run = requested[ids]
            analysis = replace(run, path=str(folder)).analysis_folder
            for path, target in ((run.path, folder), (run.analysis_folder, analysis)):
                link = Path(results, path)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(target).absolute())
        with contextlib.chdir(results):
            yield


def _summary(records: Collection[RunRecord]) -> str:
    done, totals = zip(*((record.rounds_done, record.description["rounds"]) for record in records), strict=True)
    seeds = Counter(RunIds.of_description(record.description).row for record in records).values()
    precisions = " and ".join(sorted({record.description["precision"] for record in records}))
    return f"n = {_range(seeds)}; {precisions}; {_range(done)} of {_range(totals)} rounds"


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
