"""``flatfed cell``: one number of a table, from its runs."""

from __future__ import annotations

import argparse

from flatfed import forms
from flatfed.commands import arguments, specifications
from flatfed.specs.cell import CellSpec
from flatfed.tables import cells

DETAIL = arguments.FROM_SNAKEMAKE.format("cell")
EXAMPLE = "python -m flatfed cell --spec cell.json --out cell.out"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "what to make")
    arguments.add_path(sub, "--out", "FILE", "file to write")


def run(options: argparse.Namespace) -> None:
    """Compute the cell that the specification describes."""
    cells.make(specifications.checked(options.spec, "cell", forms.reader(CellSpec)), options.out)
