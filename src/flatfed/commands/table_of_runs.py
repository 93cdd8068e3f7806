"""``flatfed table TABLE --runs FOLDER``: a table from the metrics and records of a folder of runs, nothing else."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import cell_specs, known, scales, table_specs
from flatfed.experiment.model import CellSpec
from flatfed.papers.metrics import METRICS
from flatfed.papers.units import many
from flatfed.runs import identity
from flatfed.runs.places import DEFAULT, RunIds, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord
from flatfed.runs.run import Run
from flatfed.tables import blocks, filled_table, write
from flatfed.tables.formats import markdown

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
    requested = {plain_ids(run.description): run for spec in untimed for run in spec.runs}
    chosen, left_out = _select([run for run in runs if run.ids in requested], requested, options.so_far)
    refused |= left_out
    own = {spec.column: [plain_ids(run.description) for run in spec.sources.runs] for spec in untimed}
    columns = [column for column in table.columns if not chosen.keys().isdisjoint(own.get(column, ()))]
    if not columns:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        reasons = [f"{folder}: {reason}" for folder, reason in refused.items()]
        raise DataError("\n".join([f"{options.runs}: no run of table {table.id} among {len(runs)}{hint}", *reasons]))
    summary = _summary(chosen.values())
    layout = table_specs.table_spec(described, scale, table.id, columns)
    # The records count the images, whatever data are on this machine.
    datasets = {name: replace(dataset, manifest=None) for name, dataset in layout.datasets.items()}
    layout = replace(layout, datasets=datasets)
    if len(columns) < len(table.columns):  # the first note says that the configuration names them
        note = f"Shown: {len(columns)} of its {len(table.columns)} columns, those with runs."
        layout = replace(layout, notes=[note, *layout.notes[1:]])
    if options.so_far:
        layout = replace(layout, title=f"{layout.title} ({summary})")
    shown = [_spec(spec, chosen, options.so_far) for spec in specs if spec.column in columns]
    with _as_results(chosen, requested):
        typeset = blocks.typeset(filled_table.fill(layout, shown, so_far=options.so_far))
    print(markdown.render(typeset), end="")
    if options.out:
        write.make(typeset, options.out)
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
    files = run_folders.record_files([folder], RECORD, *([RECORD_SO_FAR] if so_far else []))
    for file in dict.fromkeys(run_folders.record_file(file.parent) for file in files):
        try:
            record = run_folders.read(file)
            identity.check_folder(file.parent, record)
            runs.append(FolderRun(file.parent, record))
        except FlatFedError as problem:
            refused[file.parent] = str(problem)
    return runs, refused


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


def _spec(spec: CellSpec, chosen: Mapping[RunIds, FolderRun], so_far: bool) -> CellSpec:
    """Return the specification of a cell of the ``chosen`` runs, all in the precision of the first of them.

    Its seeds are those of all chosen runs; with ``so_far`` those that have all runs of the cell in one precision, and
    of these the finished ones if the number is of the final round.
    """
    requested = [plain_ids(run.description) for run in spec.runs]
    precision = next((chosen[ids].precision for ids in requested if ids in chosen), None)
    runs = {ids: chosen[ids] for ids in requested if ids in chosen and chosen[ids].precision == precision}
    seeds = [seed for seed in spec.seeds if any(ids.seed == seed for ids in chosen)]
    if so_far:
        ended = {ids for ids, run in runs.items() if run.record.ended}
        for there in (runs, *(() if METRICS[spec.metric].needs_target else (ended,))):
            lacking = {ids.seed for ids in requested if ids not in there}
            seeds = [seed for seed in seeds if seed not in lacking] or seeds

    def placed(run: Run) -> Run:
        ids = plain_ids(run.description)
        place = DEFAULT.run(replace(ids, protocol=ids.protocol + BFLOAT16 * (precision == "bfloat16")))
        description = runs[ids].record.description if ids in runs else run.description
        return replace(run, path=place, description=description, partition=None)

    parts = {
        key: replace(part, runs=tuple(placed(run) for run in part.runs if run.seed in seeds))
        for key, part in (("sources", spec.sources), ("base_sources", spec.base_sources))
    }
    return replace(spec, **parts, seeds=tuple(seeds) if requested else spec.seeds)


@contextlib.contextmanager
def _as_results(chosen: Mapping[RunIds, FolderRun], requested: Mapping[RunIds, Run]) -> Iterator[None]:
    """Work in a folder in which the ``chosen`` runs and their analyses are under results/, and nothing else is."""
    with tempfile.TemporaryDirectory() as results:
        for ids, run in chosen.items():
            there = replace(requested[ids], path=str(run.folder))
            here = replace(there, path=DEFAULT.run(RunIds.of(run.record.description)))
            for path, folder in ((here.path, there.path), (here.analyses, there.analyses)):
                link = Path(results, path)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(folder).absolute())
        with contextlib.chdir(results):
            yield


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
