"""``flatfed cell``.

Computes the number from the runs in results/ and writes JSON: value, deviation, seeds, runs and the printed number.

example:
  flatfed cell fedsmoo2023_T1 cifar10-dir0.1-100 fedsmoo --out fedsmoo.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.files import write_json
from flatfed.plan import at_scale
from flatfed.tables import cells, write

ARGUMENTS = [*arguments.ids("table", "column", "row"), arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Write the cell; DataError with a line for each refused run."""
    experiment = configuration.load(options.config)
    scale = options.scale or experiment.scale
    table = at_scale.table(experiment, scale, options.table, [options.column], options.row)
    (cell,) = cells.fill(table).cells
    write_json(options.out, write.content(cell))
