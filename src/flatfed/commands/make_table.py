"""``flatfed table``.

Without --runs: makes the table from the runs in results/, with the columns of config.yaml.
With --runs: makes the table from metrics.csv and run.json of the runs in folders, with their columns and seeds.
Needs no data, models, Snakemake or torch, and does not compare data. The default scale is that of the longest run of
the table. Of equal runs it uses that of the first folder, then the one that finished first, or the longest; a cell and
its base row have one precision, that of their first run. It lists the runs that it leaves out (damaged, other settings
or versions) with reasons.
--so-far also reads unfinished runs. ">130": target not reached within 130 rounds. "round 130": number of an
unfinished run after 130 rounds.

example:
  flatfed table fedsmoo2023_T6 --runs results/published --so-far
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from flatfed import plan
from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError
from flatfed.plan import Experiment, at_scale, lookup
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.plan.units import plural
from flatfed.runs.paths import without_label
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.runs.store import Store, check_has_runs, rank
from flatfed.tables import blocks, write
from flatfed.tables.formats import markdown

ARGUMENTS = [
    *arguments.ids("table"),
    argument("--runs", arguments.folder, "folders of runs (default: results/)", nargs="+", metavar="FOLDER"),
    flag("--so-far", "with --runs: also unfinished runs"),
    argument("--out", arguments.folder, "folder for csv, md, tex and html (default: print Markdown)"),
    *arguments.JOB,
]


def run(options: argparse.Namespace) -> None:
    """Print the table, or write it in every format (``--runs``: both).

    :raises DataError: a run is refused, a line for each; or, after the table, runs that are left out as damaged.
    """
    if options.so_far and not options.runs:
        raise DataError("--so-far needs --runs FOLDER")
    if options.runs:
        table, messages, damaged = of_runs(options)
    else:
        experiment = configuration.load(options.config)
        scale = options.scale or experiment.scale_of([options.table])
        spec = at_scale.table(experiment, scale, options.table, experiment.requested.tables.get(options.table))
        table, messages, damaged = blocks.typeset(spec), [], []
    if options.out:
        write.make(table, options.out)
    if options.runs or not options.out:
        print(markdown.render(table), end="")
    for message in messages:
        print(message, file=sys.stderr)
    if damaged:
        raise DataError(f"left out as damaged: {', '.join(damaged)}")


def of_runs(options: argparse.Namespace) -> tuple[blocks.TypesetTable, list[str], list[str]]:
    """Return the table of the runs in folders, messages (a summary, then the runs left out), and the damaged.

    The default scale is that of the first run of the table, by :func:`flatfed.runs.store.rank`.

    :raises DataError: a folder is absent or has no run, or none has a run of the table.
    """
    for folder in options.runs:
        check_has_runs(folder)
    store = Store(options.runs, alone=True, so_far=options.so_far)
    records = store.records
    seeds = sorted({record.config.seed for record in records.values()})
    requested = replace(plan.load(configuration.home(), configuration.read(options.config)), store=Store())
    request = requested.request.model_copy(update={"seeds": seeds or [1]})
    experiment = replace(requested, request=request, store=store)
    table = lookup.entry("table", options.table, experiment.tables, "config/tables")
    protocols = {without_label(protocol) for protocol in table.protocols}
    configs = (record.config for record in records.values() if without_label(record.config.protocol) in protocols)
    scales = table.document.scales or plan.SCALES
    scale = options.scale or next((config.scale for config in configs if config.scale in scales), scales[0])
    of_table = numbers(experiment, scale, table.id)
    timed = {number.column for number in of_table if number.all_timed}  # a folder of runs has no timings
    of_table = [number for number in of_table if number.column not in timed]
    cells = [_in_one_precision(experiment, cell) for cell in by_cell(of_table).values()]
    shown = {path: records[path] for cell in cells for path, run in runs_of(cell).items() if not run.absent}
    unused = [path for path, run in runs_of(of_table).items() if not run.absent]
    refused = dict.fromkeys(unused, "not used: its cell has another precision") | store.refused
    reasons = {path: f"not shown: {path}: {reason}" for path, reason in refused.items() if path not in shown}
    with_runs = {number.column for cell in cells for number in cell if not all(run.absent for run in number.runs)}
    if not with_runs:
        hint = "" if options.so_far else " finished ones; --so-far reads others, too"
        problem = f"{', '.join(map(str, options.runs))}: no run of table {table.id} among {len(records)}{hint}"
        raise DataError("\n".join([problem, *reasons.values()]))
    columns = [column for column in table.columns if column in with_runs]
    spec = at_scale.table(requested, scale, table.id, columns)
    cells = [_of_seeds(cell, shown, options.so_far) for cell in cells if cell[0].column in with_runs]
    made = blocks.typeset(replace(spec, numbers=[n for cell in cells for n in cell]), so_far=options.so_far)
    summary = _summary(shown.values())
    if options.so_far:
        made = replace(made, title=f"{made.title} ({summary})")
    others = f"{len(records.keys() - shown.keys() - reasons.keys())} others are not of this table"
    messages = [f"{table.id}, {scale} scale: {summary} ({plural(len(shown), 'run')}; {others}); data not compared"]
    return made, [*messages, *reasons.values()], store.damaged


def _in_one_precision(experiment: Experiment, cell: list[Number]) -> list[Number]:
    """Return the numbers of a ``cell`` with runs in the precision of the first of them, others are absent."""
    store, runs = experiment.store, runs_of(cell).values()
    ranks = {run.path: rank(store.records[run.path]) for run in runs if not run.absent}
    if len({run.config.precision for run in runs if not run.absent}) < 2:
        return cell
    precision = store.records[min(ranks, key=ranks.get)].config.precision

    def located(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(store.find(experiment.resolved(run.ids), precision=precision) for run in runs)

    return [replace(number, runs=located(number.runs), base_runs=located(number.base_runs)) for number in cell]


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
