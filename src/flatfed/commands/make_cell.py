"""``flatfed cell``: one number of a table, from its runs.

Computes the number from the runs in results/, by the code that makes tables, and writes every field of it as
JSON: value, deviation, seeds, runs and the printed number.

example:
  python -m flatfed cell fedsmoo2023_T1 cifar10-dir0.1-100 fedsmoo --out fedsmoo.json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from flatfed.commands import arguments, configuration
from flatfed.experiment import cell_specs
from flatfed.experiment.model import digest
from flatfed.files import write_json
from flatfed.tables import cells

ARGUMENTS = [*arguments.ids("table", "column", "row"), arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Compute a cell.

    :raises ConfigError: no such table, column or row.
    :raises DataError: runs are refused; the message has a line for each.
    """
    experiment = configuration.load(options.config)
    spec = cell_specs.cell(experiment, options.scale or experiment.scale, options.table, options.column, options.row)
    configuration.check_digest(digest(spec), options)
    write_json(options.out, asdict(cells.compute(spec)))
