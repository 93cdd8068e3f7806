"""``flatfed table``.

Without --runs: makes the table from the runs in results/, with the columns that the configuration names.
With --runs: reads metrics.csv and run.json of all runs in a folder, without data, models, Snakemake or torch. The table
has the columns and seeds of these runs. Of two equal runs it uses the finished, then the longer one. It lists with the
reason the runs that it leaves out: damaged, of another description, or trained on other data than the rest.
--so-far also reads unfinished runs (run.so-far.json), all in the precision of the longest run. ">130": the target was
not reached within 130 rounds. "round 130": the run has completed 130 rounds.

example:
  python -m flatfed table fedsmoo2023_T6 --runs results/published --so-far
"""

from __future__ import annotations

import argparse
import sys

from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError
from flatfed.experiment import cell_specs, selection, table_specs
from flatfed.tables import blocks, filled_table, write
from flatfed.tables.formats import markdown

ARGUMENTS = [
    *arguments.ids("table"),
    argument("--runs", kinds.folder, "folder of runs (default: results/)"),
    flag("--so-far", "with --runs: also unfinished runs"),
    flag("--all", "all columns"),
    argument("--out", kinds.folder, "folder for csv, md, tex and html (default: print Markdown)"),
    *arguments.JOB,
]


def run(options: argparse.Namespace) -> None:
    """Print the table; with ``--out``, write it in every format.

    :raises ConfigError: there is no such table.
    :raises DataError: --so-far without --runs, no run of the table in --runs, or refused runs, one a line.
    """
    if options.so_far and not options.runs:
        raise DataError("--so-far needs --runs FOLDER")
    if options.runs:
        from flatfed.commands import table_of_runs

        table, messages = table_of_runs.make(options)
    else:
        table, messages = _of_results(options), []
    print(markdown.render(table), end="")
    if options.out:
        write.make(table, options.out)
    for message in messages:
        print(message, file=sys.stderr)


def _of_results(options: argparse.Namespace) -> blocks.TypesetTable:
    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, [options.table])
    columns = None if options.all else selection.with_columns(experiment, [options.table])[0][1]
    layout = table_specs.table_spec(experiment, scale, options.table, columns)
    specs = cell_specs.cells(experiment, scale, options.table, columns)
    configuration.check_digest(options, layout, specs)
    return blocks.typeset(filled_table.fill(layout, specs))
