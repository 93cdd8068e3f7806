"""``flatfed table``: a table from its runs, printed as Markdown or written in four formats.

Without --runs: makes the table from the runs in results/, with the columns that the configuration names.
With --runs: reads a folder of runs, metrics.csv and run.json of each, wherever they lie in it. Nothing else
is needed: no data, no partitions, no models, no Snakemake, no torch. The table has all columns of which a run
is there, and the seeds that are there. Of two runs of one cell and seed it takes the finished one, then the
longer one. A run that is not what the configuration describes, is damaged or was trained on other data than
the rest is left out; the command lists all of these with the reason.
--so-far reads unfinished runs, too (run.so-far.json), each cell with the seeds that are there, all in the
precision of the run that is furthest, whatever the table's is. A target that was reached counts; ">130" stands
for one that was not yet reached in 130 rounds, "round 130" for a number of the last round of a run that has
completed 130.

example:
  python -m flatfed table fedsmoo2023_T6 --runs results/published --so-far
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError
from flatfed.experiment import cell_specs, selection, table_specs
from flatfed.experiment.model import digest
from flatfed.tables import blocks, filled_table, write
from flatfed.tables.formats import markdown

ARGUMENTS = [
    *arguments.ids("table"),
    argument("--runs", kinds.folder, "folder of runs (default: results/)"),
    flag("--so-far", "with --runs: also unfinished runs, in the precision of the furthest"),
    flag("--all", "all columns, whatever the configuration names"),
    argument("--out", kinds.folder, "folder to write into (default: the table is printed only)"),
    *arguments.JOB,
]


def run(options: argparse.Namespace) -> None:
    """Print a table, or write it.

    :raises ConfigError: there is no such table.
    :raises DataError: --so-far without --runs, or runs are refused; the message has a line for each.
    """
    if options.runs:
        from flatfed.commands import table_of_runs

        table_of_runs.make(options)
        return
    if options.so_far:
        raise DataError("--so-far goes with --runs FOLDER")
    experiment = configuration.load(options.config)
    scale = options.scale or selection.scale_of(experiment, [options.table])
    columns = None if options.all else selection.with_columns(experiment, [options.table])[0][1]
    layout = table_specs.table_spec(experiment, scale, options.table, columns)
    specs = cell_specs.cells(experiment, scale, options.table, columns)
    configuration.check_digest(digest(layout, specs), options)
    table = blocks.typeset(filled_table.fill(layout, specs))
    if options.out:
        write.make(table, options.out)
    else:
        print(markdown.render(table), end="")
