"""``flatfed report``: tables and figures of one scale on one page."""

from __future__ import annotations

import argparse

from flatfed import forms
from flatfed.commands import arguments, specifications
from flatfed.specs.pages import ReportSpec

DETAIL = arguments.FROM_SNAKEMAKE.format("report")
EXAMPLE = "python -m flatfed report --spec report.json --out report.out"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "what to make")
    arguments.add_path(sub, "--out", "FILE", "file to write")


def run(options: argparse.Namespace) -> None:
    """Bind the report that the specification describes."""
    spec = specifications.checked(options.spec, "report", forms.reader(ReportSpec))
    from flatfed.figures import interactive
    from flatfed.tables import report

    report.make(spec, options.out, interactive.embedded)
