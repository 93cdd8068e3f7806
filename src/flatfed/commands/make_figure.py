"""``flatfed figure``: a figure as PNG and PDF.

Draws the figure from the runs, partitions and analyses in results/. Absent ones are counted in its foot.

example:
  python -m flatfed figure fedsmoo2023_F7 --out out
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.experiment import figure_specs
from flatfed.experiment.model import digest

ARGUMENTS = [*arguments.ids("figure"), arguments.OUT_FOLDER, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Draw a figure.

    :raises ConfigError: no such figure.
    :raises DataError: runs are refused; the message has a line for each.
    """
    experiment = configuration.load(options.config)
    spec = figure_specs.figure_spec(experiment, options.scale or experiment.scale, options.figure)
    configuration.check_digest(digest(spec), options)
    from flatfed import figures  # with matplotlib, which no refusal needs

    figures.make(spec, options.out)
