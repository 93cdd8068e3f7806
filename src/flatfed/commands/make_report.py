"""``flatfed report``.

Writes the tables and figures of the configuration as one page, with their runs, settings and machines.

example:
  flatfed report --scale preview --out report.html
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.plan import at_scale
from flatfed.tables import report

ARGUMENTS = [arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Write the report; DataError with a line for each refused run."""
    experiment = configuration.load(options.config)
    report.make(at_scale.report(experiment, options.scale or experiment.scale), options.out)
