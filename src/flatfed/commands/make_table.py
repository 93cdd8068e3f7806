"""``flatfed table``: a table in four formats."""

from __future__ import annotations

import argparse

from flatfed import forms
from flatfed.commands import arguments, specifications
from flatfed.specs.table import TableSpec
from flatfed.tables import write

DETAIL = arguments.FROM_SNAKEMAKE.format("table")
EXAMPLE = "python -m flatfed table --spec table.json --out-dir out"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "what to make")
    arguments.add_path(sub, "--out-dir", "DIR", "folder to write into")


def run(options: argparse.Namespace) -> None:
    """Write the table that the specification describes."""
    write.make(specifications.checked(options.spec, "table", forms.reader(TableSpec)), options.out_dir)
