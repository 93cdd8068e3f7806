"""``flatfed figure``: a figure as PNG and PDF."""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, specifications
from flatfed.specs import figure

DETAIL = arguments.FROM_SNAKEMAKE.format("figure")
EXAMPLE = "python -m flatfed figure --spec figure.json --out-dir out"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "what to make")
    arguments.add_path(sub, "--out-dir", "DIR", "folder to write into")


def run(options: argparse.Namespace) -> None:
    """Draw the figure that the specification describes."""
    spec = specifications.checked(options.spec, "figure", figure.read)
    from flatfed import figures  # with matplotlib, which no refusal needs

    figures.make(spec, options.out_dir)
