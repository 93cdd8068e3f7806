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

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError
from flatfed.plan import at_scale
from flatfed.plan.number import inputs
from flatfed.tables import blocks, write
from flatfed.tables.formats import markdown

ARGUMENTS = [
    *arguments.ids("table"),
    argument("--runs", arguments.folder, "folder of runs (default: results/)"),
    flag("--so-far", "with --runs: also unfinished runs"),
    flag("--all", "all columns"),
    argument("--out", arguments.folder, "folder for csv, md, tex and html (default: print Markdown)"),
    *arguments.JOB,
    arguments.SEAL,
]


def run(options: argparse.Namespace) -> None:
    """Print the table, or write it in every format (``--runs``: both); DataError with a line for each refused run."""
    if options.so_far and not options.runs:
        raise DataError("--so-far needs --runs FOLDER")
    if options.runs and options.all:
        raise DataError("--runs shows the columns that the runs have: leave out --all")
    if options.runs:
        from flatfed.commands import table_of_runs

        (table, messages), read = table_of_runs.make(options), []
    else:
        (table, read), messages = _of_results(options), []
    if options.out:
        configuration.seal(options, write.make(table, options.out), read)
    if options.runs or not options.out:
        print(markdown.render(table), end="")
    for message in messages:
        print(message, file=sys.stderr)


def _of_results(options: argparse.Namespace) -> tuple[blocks.TypesetTable, list[str]]:
    """Return the table, and the files that it reads."""
    experiment = configuration.load(options.config)
    scale = options.scale or experiment.scale_of([options.table])
    columns = None if options.all else experiment.requested.tables.get(options.table)
    spec = at_scale.table(experiment, scale, options.table, columns)
    configuration.check_digest(options, spec)
    return blocks.typeset(spec), inputs(spec.numbers)
