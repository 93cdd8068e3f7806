"""``flatfed table TABLE --runs FOLDER``: a table from the metrics and records of a folder of runs, nothing else."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, cell_specs, known, scales, table_specs
from flatfed.experiment.model import CellSpec, Sources, TableSpec
from flatfed.papers.metrics import METRICS
from flatfed.papers.units import many
from flatfed.runs import identity
from flatfed.runs.places import DEFAULT, RunIds, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord
from flatfed.runs.run import Run
from flatfed.tables import blocks, cells, write
from flatfed.tables.cell import Cell
from flatfed.tables.filled_table import FilledTable
from flatfed.tables.formats import markdown

#: Prefix of the folders of absent runs: no such folder exists.
ABSENT = "absent:/"

#: Label of the variant of a protocol that differs from it in precision alone.
BFLOAT16 = "~bfloat16"


def plain_ids(description: Mapping[str, Any]) -> RunIds:
    """Return the ids of a run description, the same for every precision."""
    ids = RunIds.of(description)
    return replace(ids, protocol=ids.protocol.removesuffix(BFLOAT16))


@dataclass(frozen=True)
class FolderRun:
    """A run in a ``folder``, finished or not."""

    folder: Path
    record: RunRecord

    @property
    def ids(self) -> RunIds:
        """Its ids, the same for every precision."""
        return plain_ids(self.record.description)

    @property
    def precision(self) -> str:
        """The precision of its layers."""
        return self.record.description["precision"]

    @property
    def state(self) -> str:
        """Its precision and completed rounds, for a message."""
        return f"{self.precision}, {self.record.rounds_done} of {self.record.description['rounds']} rounds"


def make(options: argparse.Namespace) -> None:
    """Print the table that the command line asks for as Markdown; with ``--out`` write it in every format.

    Lists the runs that the table does not show on stderr, each with the reason.

    :raises ConfigError: there is no such table.
    :raises DataError: the folder has no run of the table.
    """
    runs, refused = _read(options.runs, options.so_far)
    seeds = sorted({run.ids.seed for run in runs}) or [1]
    config = {key: value for key, value in configuration.read(options.config).items() if key != "seeds_together"}
    described = experiment.load(configuration.HOME, {**config, "seeds": seeds})
    table = known.look_up("table", options.table, described.tables, "config/tables")
    protocols = {("paper", name.removesuffix(BFLOAT16)) for name in scales.of_table(table)}
    scale = "paper" if any((run.ids.scale, run.ids.protocol) in protocols for run in runs) else "preview"
    specs = cell_specs.cells(described, scale, table.id)
    # Seconds are measured apart: no timing is read from a folder of runs.
    untimed = [spec for spec in specs if not spec.timed]
    requested = {ids: run for spec in untimed for ids, run in _requested(spec.runs).items()}
    chosen, left_out = _select([run for run in runs if run.ids in requested], requested, options.so_far)
    refused |= left_out
    with_runs = {spec.column for spec in untimed if _requested(spec.sources.runs).keys() & chosen}
    columns = [column for column in table.columns if column in with_runs]
    if not columns:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        reasons = [f"{folder}: {reason}" for folder, reason in refused.items()]
        raise DataError("\n".join([f"{options.runs}: no run of table {table.id} among {len(runs)}{hint}", *reasons]))
    summary = _summary(chosen.values())
    layout = _layout(described, scale, table.id, columns)
    if options.so_far:
        notes = [*_completed_rounds(described, chosen), *layout.notes]
        layout = replace(layout, title=f"{layout.title} ({summary})", notes=notes)
    by_column: dict[str, dict[str, Cell]] = {column: {} for column in columns}
    for spec in specs:
        if spec.column in columns:
            by_column[spec.column][spec.row] = _cell(spec, chosen, options.so_far)
    typeset = blocks.typeset(FilledTable(layout, by_column))
    print(markdown.render(typeset), end="")
    if options.out_dir:
        write.make(typeset, options.out_dir)
    others = sum(run.ids not in requested for run in runs)
    counts = f"{many(len(chosen), 'run')}; {others} others are not of this table"
    print(f"{table.id}, {scale} scale: {summary} ({counts})", file=sys.stderr)
    for path, reason in refused.items():
        print(f"not shown: {path}: {reason}", file=sys.stderr)


def _read(folder: Path, so_far: bool) -> tuple[list[FolderRun], dict[Path, str]]:
    """Return the runs in ``folder`` and, by folder, why others are refused; with ``so_far`` unfinished ones, too."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    runs, refused = [], {}
    for file in run_folders.record_files([folder], RECORD, *([RECORD_SO_FAR] if so_far else [])):
        if file.name == RECORD_SO_FAR and file.with_name(RECORD).exists():
            continue
        try:
            record = _record(file)
            identity.check_folder(file.parent, record)
            runs.append(FolderRun(file.parent, record))
        except (FlatFedError, FileNotFoundError) as problem:
            refused[file.parent] = str(problem)
    return runs, refused


def _record(file: Path) -> RunRecord:
    try:
        return run_folders.read(file)
    except DataError:
        if file.name == RECORD:
            raise
        time.sleep(1)  # a training replaces its lines before its record
        return run_folders.read(file)


def _requested(runs: Iterable[Run]) -> dict[RunIds, Run]:
    """Return the ``runs`` of a cell by their ids, the same ids for every precision."""
    return {plain_ids(run.description): run for run in runs}


def _select(
    runs: Iterable[FolderRun], requested: Mapping[RunIds, Run], so_far: bool
) -> tuple[dict[RunIds, FolderRun], dict[Path, str]]:
    """Return the runs that the table shows and, by folder, why it does not show others.

    It shows one run a seed, and one precision for all seeds of a row and split: that of the finished run, then that of
    the longest, then the table's own.
    """
    left_out, fitting = {}, []
    precisions = {ids: run.description["precision"] for ids, run in requested.items()}
    for run in runs:
        target = requested[run.ids].description
        same = {key: target[key] for key in ("protocol", *(["precision"] if so_far else []))}
        if different := identity.deciding_differences({**run.record.description, **same}, target):
            left_out[run.folder] = f"not the run that the table asks for: {'; '.join(different)}"
        else:
            fitting.append(run)
    left_out |= {run.folder: reason for run, reason in _with_other_data(fitting)}
    fitting = sorted(
        (run for run in fitting if run.folder not in left_out),
        key=lambda run: (run.record.ended, run.record.rounds_done, run.precision == precisions[run.ids]),
    )
    best = {run.ids.row: run for run in fitting}
    chosen = {run.ids: run for run in fitting if run.precision == best[run.ids.row].precision}
    for run in fitting:
        if (shown := chosen.get(run.ids, best[run.ids.row])) is not run:
            left_out[run.folder] = f"not used: {run.state}; {shown.folder} is shown: {shown.state}"
    return {ids: chosen[ids] for ids in requested if ids in chosen}, left_out


def _with_other_data(runs: Iterable[FolderRun]) -> Iterator[tuple[FolderRun, str]]:
    """Yield the runs that were trained on another data set or partition than most, with the reason."""
    groups: dict[tuple[Any, ...], list[FolderRun]] = {}
    for run in runs:
        name = run.record.description["dataset"]["name"]
        partition = name, without_label(run.ids.protocol), run.ids.split, run.ids.seed
        for key in (("dataset_digest", name), ("partition_digest", *partition)):
            groups.setdefault(key, []).append(run)
    for (key, *_), group in groups.items():
        [(most, _)] = Counter(getattr(run.record, key) for run in group).most_common(1)
        for run in group:
            if (digest := getattr(run.record, key)) != most:
                yield run, f"trained on other data: {key} is {digest[:12]}, that of most runs here {most[:12]}"


def _cell(spec: CellSpec, chosen: Mapping[RunIds, FolderRun], so_far: bool) -> Cell:
    """Return a cell, computed from the ``chosen`` runs.

    Its seeds are those of all chosen runs; with ``so_far`` those that have all runs of the cell in one precision, and
    of these the finished ones if the number is of the final round.
    """
    metric, requested = METRICS[spec.metric], _requested(spec.runs)
    runs = {ids: chosen[ids] for ids in requested if ids in chosen}
    precision = next((run.precision for run in runs.values()), None)
    runs = {ids: run for ids, run in runs.items() if run.precision == precision}
    seeds = [seed for seed in spec.seeds if any(ids.seed == seed for ids in chosen)]
    if so_far:
        seeds = _with_all(seeds, requested, runs) or seeds
        if not metric.needs_target:
            seeds = _with_all(seeds, requested, [ids for ids in runs if runs[ids].record.ended]) or seeds
    placed = {}
    for ids, run in requested.items():
        place = DEFAULT.run(replace(ids, protocol=ids.protocol + BFLOAT16 * (precision == "bfloat16")))
        found = runs.get(ids)
        place, about = (str(found.folder), found.record.description) if found else (ABSENT + place, run.description)
        placed[ids] = replace(run, path=place, description=about, partition=None)
    parts = {key: _placed(getattr(spec, key), placed, seeds) for key in ("sources", "base_sources")}
    number = cells.compute(replace(spec, **parts, **({"seeds": tuple(seeds)} if requested else {})), so_far=so_far)
    # Runs are named as under results/, so that the table is the same wherever the folder is.
    names = {str(run.folder): DEFAULT.run(RunIds.of(run.record.description)) for run in runs.values()} | {ABSENT: ""}
    folders = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    texts = {key: getattr(number, key) for key in ("runs", "base_runs", "problems")}
    texts = {key: [folders.sub(lambda match: names[match[0]], text) for text in texts[key]] for key in texts}
    return replace(number, **texts)


def _placed(part: Sources, placed: Mapping[RunIds, Run], seeds: list[int]) -> Sources:
    """Return a part of the sources of a cell with the ``placed`` runs of ``seeds``."""
    runs = tuple(placed[plain_ids(run.description)] for run in part.runs if run.seed in seeds)
    return replace(part, runs=runs, timed=part.timed and replace(part.timed, path=f"{ABSENT}{part.timed.path}"))


def _with_all(seeds: list[int], requested: Iterable[RunIds], runs: Collection[RunIds]) -> list[int]:
    """Return those of ``seeds`` of which all ``requested`` runs are among ``runs``."""
    lacking = {ids.seed for ids in requested if ids not in runs}
    return [seed for seed in seeds if seed not in lacking]


def _layout(described: Experiment, scale: str, name: str, columns: list[str]) -> TableSpec:
    """Return the layout of table ``name`` with these ``columns``."""
    layout = table_specs.table_spec(described, scale, name, columns)
    notes, total = layout.notes, len(described.tables[name].columns)
    if len(columns) < total:  # the first note says that the configuration names them
        notes = [f"Shown: {len(columns)} of its {total} columns, those with runs.", *notes[1:]]
    # The records count the images, whatever data are on this machine.
    datasets = {key: replace(dataset, manifest=None) for key, dataset in layout.datasets.items()}
    return replace(layout, datasets=datasets, notes=notes)


def _summary(runs: Collection[FolderRun]) -> str:
    """Return the numbers of seeds, the precisions and the completed rounds of ``runs``."""
    rounds: dict[int, list[int]] = {}
    for run in runs:
        rounds.setdefault(run.record.description["rounds"], []).append(run.record.rounds_done)
    completed = ", ".join(f"{_range(done)} of {total}" for total, done in rounds.items())
    precisions = " and ".join(sorted({run.precision for run in runs}))
    return f"n = {_range(Counter(run.ids.row for run in runs).values())}; {precisions}; {completed} rounds"


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _completed_rounds(described: Experiment, chosen: Mapping[RunIds, FolderRun]) -> list[str]:
    """Return a note on the completed rounds of each row, for each split and precision."""
    groups: dict[tuple[str, str, str, int], dict[str, list[str]]] = {}
    for ids, run in chosen.items():
        label, total = described.catalog.protocols[ids.protocol].label, run.record.description["rounds"]
        rows = groups.setdefault((label, ids.split, run.precision, total), {})
        rows.setdefault(described.catalog.label(ids.algorithm), []).append(str(run.record.rounds_done))
    lines = []
    for (label, split, precision, total), rows in groups.items():
        listed = ", ".join(f"{row} {' and '.join(rounds)}" for row, rounds in rows.items())
        lines.append(f"Rounds completed of {total} ({label}, {split}, {precision}): {listed}.")
    return lines
