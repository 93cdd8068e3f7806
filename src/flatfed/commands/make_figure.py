"""``flatfed figure``: a figure as PNG and PDF."""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.experiment import figure_specs
from flatfed.experiment.model import digest

DETAIL = "Draws the figure from the runs, partitions and analyses in results/. Absent ones are counted in its foot."
EXAMPLE = "python -m flatfed figure fedsmoo2023_F7 --out-dir out"


def add(sub: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    arguments.add_ids(sub, "figure")
    arguments.add_path(sub, "--out-dir", "DIR", "folder to write into")
    arguments.add_job(sub)


def run(options: argparse.Namespace) -> None:
    """Draw a figure.

    :raises ConfigError: no such figure.
    :raises DataError: runs are refused; the message has a line for each.
    """
    experiment = configuration.load(options.config)
    spec = figure_specs.figure_spec(experiment, options.scale or experiment.scale, options.figure)
    configuration.check_digest(digest(spec), options)
    from flatfed import figures  # with matplotlib, which no refusal needs

    figures.make(spec, options.out_dir)
