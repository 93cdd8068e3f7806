"""``flatfed table``.

Without --runs: makes the table from the runs in results/, with the columns of config.yaml.
With --runs: makes the table from metrics.csv and run.json of the runs in a folder, with their columns and seeds.
Needs no data, models, Snakemake or torch. The default scale is that of the longest run of the table. Of two equal runs
it uses the finished or the longer one; a cell and its base row have the precision of their longest run. It lists the
runs that it leaves out (damaged, other settings, other data) with reasons.
--so-far also reads unfinished runs. ">130": target not reached within 130 rounds. "round 130": number of an
unfinished run after 130 rounds.

example:
  python -m flatfed table fedsmoo2023_T6 --runs results/published --so-far
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from flatfed import plan
from flatfed.commands import arguments, configuration, run_folders
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError
from flatfed.plan import at_scale, lookup
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.plan.units import plural
from flatfed.runs.paths import RunIds
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.tables import blocks, write
from flatfed.tables.formats import markdown

ARGUMENTS = [
    *arguments.ids("table"),
    argument("--runs", arguments.folder, "folder of runs (default: results/)"),
    flag("--so-far", "with --runs: also unfinished runs"),
    argument("--out", arguments.folder, "folder for csv, md, tex and html (default: print Markdown)"),
    *arguments.JOB,
]


def run(options: argparse.Namespace) -> None:
    """Print the table, or write it in every format (``--runs``: both); DataError with a line for each refused run."""
    if options.so_far and not options.runs:
        raise DataError("--so-far needs --runs FOLDER")
    if options.runs:
        table, messages = of_runs(options)
    else:
        experiment = configuration.load(options.config)
        scale = options.scale or experiment.scale_of([options.table])
        spec = at_scale.table(experiment, scale, options.table, experiment.requested.tables.get(options.table))
        table, messages = blocks.typeset(spec), []
    if options.out:
        write.make(table, options.out)
    if options.runs or not options.out:
        print(markdown.render(table), end="")
    for message in messages:
        print(message, file=sys.stderr)


def of_runs(options: argparse.Namespace) -> tuple[blocks.TypesetTable, list[str]]:
    """Return the table of the runs in a folder, and messages: a summary, then the refused runs with reasons.

    The runs of a cell and of its base row have the precision of the longest; of equally long ones, that of the run
    which finished first. The default scale is that of the longest run.

    :raises DataError: the folder has no run of the table.
    """
    records, refused = run_folders.records_in([options.runs], options.so_far)
    seeds = sorted({record.config.seed for record in records.values()})
    requested = plan.load(configuration.HOME, configuration.read(options.config))
    experiment = replace(requested, request=requested.request.model_copy(update={"seeds": seeds or [1]}))
    table = lookup.entry("table", options.table, experiment.tables, "config/tables")
    ids = [run_folders.plain(record.config.ids) for record in records.values()]
    default = (table.document.scales or plan.SCALES)[0]
    scale = options.scale or next((run.scale for run in ids if run.protocol in table.protocols), default)
    of_table = numbers(experiment, scale, table.id)
    timed = {number.column for number in of_table if number.all_timed}  # a folder of runs has no timings
    of_table = [number for number in of_table if number.column not in timed]
    runs, left_out = run_folders.select(records, experiment, {run.config.ids for run in runs_of(of_table).values()})
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
    spec = at_scale.table(requested, scale, table.id, columns)
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


def _with_runs(
    cell: list[Number], runs: Mapping[RunIds, Run], records: Mapping[str, RunRecord]
) -> list[Number]:
    """Return the numbers of a ``cell`` with ``runs``, all in the precision of the first by rank, else absent."""
    requested = {run.config.ids: run.config for run in runs_of(cell).values()}

    def in_precision(label: str) -> dict[RunIds, Run]:
        found = {ids: runs.get(replace(ids, protocol=ids.protocol + label)) for ids in requested}
        same = {ids: run and requested[ids].in_form_of(run.config) for ids, run in found.items()}
        return {ids: run for ids, run in found.items() if run and not run.config.deciding_differences(same[ids])}

    def rank(variant: Mapping[RunIds, Run]) -> tuple[bool, int, str]:
        return min((run_folders.rank(records[run.path]) for run in variant.values()), default=(True, 1, ""))

    best = min(map(in_precision, ("", run_folders.BFLOAT16)), key=rank)

    def placed(requested: Iterable[Run]) -> tuple[Run, ...]:
        return tuple(best.get(run.config.ids) or replace(run, absent=True) for run in requested)

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
