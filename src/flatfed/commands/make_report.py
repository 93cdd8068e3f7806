"""``flatfed report``: tables and figures of one scale on one page.

Shows the tables and figures that the configuration names, with their runs, settings and machines.

example:
  python -m flatfed report --scale preview --out report.html
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.experiment import report_spec
from flatfed.experiment.model import digest

ARGUMENTS = [arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Write the report.

    :raises DataError: runs are refused; the message has a line for each.
    """
    experiment = configuration.load(options.config)
    spec = report_spec.specification(experiment, options.scale or experiment.scale)
    configuration.check_digest(digest(spec), options)
    from flatfed.tables import report

    report.make(spec, options.out)
