"""``flatfed choose``: of the runs that try a grid, the one with the best accuracy on the validation parts."""

from __future__ import annotations

import argparse

from flatfed import forms
from flatfed.commands import arguments, specifications
from flatfed.runs.choice import Choice
from flatfed.tables import search

DETAIL = """\
Reads the runs that tried them and records grid, accuracies and choice; the test images have no part in it.
Snakemake passes the specification: `snakemake -n -p --forcerun choose -- tuning` prints every call."""
EXAMPLE = "python -m flatfed choose --spec cell.json --out choice.json"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "what was tried")
    arguments.add_path(sub, "--out", "FILE", "file to write")


def run(options: argparse.Namespace) -> None:
    """Make the choice that the specification describes."""
    search.make(specifications.checked(options.spec, "choose", forms.reader(Choice)), options.out)
