"""``flatfed table``: a table in four formats."""

from __future__ import annotations

import argparse

from flatfed import forms
from flatfed.commands import arguments, kinds, specifications
from flatfed.errors import DataError
from flatfed.specs.table import TableSpec
from flatfed.tables import write

DETAIL = f"""\
With --runs: reads a folder of runs, metrics.csv and run.json of each, wherever they lie in it. Nothing else
is needed: no data, no partitions, no models, no Snakemake, no torch. The table has all columns of which a run
is there, and the seeds that are there. Of two runs of one cell and seed it takes the finished one, then the
longer one; all seeds of a cell are of one precision. A run that is not what the configuration describes, is
damaged or was trained on other data than the rest is left out; the command lists all of these with the reason.
--so-far reads unfinished runs, too (run.so-far.json), and runs in another precision than the table's, each
cell with the seeds that are there. A target that was reached counts; ">130" stands for one that was not yet
reached in 130 rounds, "round 130" for a number of the last round of a run that has completed 130.
{arguments.FROM_SNAKEMAKE.format("table")}"""
EXAMPLE = "python -m flatfed table fedsmoo2023_T6 --runs results/published --so-far"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    what = sub.add_mutually_exclusive_group(required=True)
    what.add_argument("table", nargs="?", metavar="TABLE", help="table to make from the runs in --runs")
    what.add_argument("--spec", type=kinds.json_or_file, metavar="JSON", help="what to make: JSON, or a file of it")
    sub.add_argument("--runs", type=kinds.folder, metavar="FOLDER", help="folder of the runs of TABLE")
    sub.add_argument("--so-far", action="store_true", help="read unfinished runs and other precisions, too")
    out = "folder to write into (default with --runs: the table is printed only)"
    sub.add_argument("--out", "--out-dir", dest="out_dir", type=kinds.folder, metavar="DIR", help=out)
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Write the table that the specification describes, or that the runs of a folder make.

    :raises DataError: TABLE without --runs, --spec without --out-dir, or as the reader of the runs.
    """
    if options.spec is None:
        if options.runs is None:
            raise DataError(f"--runs FOLDER is wanted: the runs to make table {options.table} from")
        from flatfed.commands import table_of_runs

        table_of_runs.make(options)
        return
    if options.out_dir is None:
        raise DataError("--out-dir DIR is wanted: the folder to write into")
    write.make(specifications.checked(options.spec, "table", forms.reader(TableSpec)), options.out_dir)
