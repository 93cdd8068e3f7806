"""``flatfed verify``.

Compares the cells of the runs in results/ with the printed numbers:
  agrees    |ours - printed| <= max(1 point, 2 s / sqrt(n)), s: our deviation over n seeds. Rounds, costs and times:
            10 % of the printed number instead of 1 point. Declared costs: exactly. `tolerance` and `not_judged` of a
            table replace this; a larger difference can then be near
  order     Spearman's rank correlation of the rows with the paper's
Tables with another set-up than the paper: only the order. Preview scale: nothing is compared.

example:
  flatfed verify fedsmoo2023_T1 --scale paper --strict
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import flag
from flatfed.errors import DataError
from flatfed.plan import at_scale
from flatfed.tables import cells, compare, doubts

ARGUMENTS = [*arguments.TABLES, flag("--strict", "exit with 1 unless all numbers agree and none is missing")]


def run(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit status; DataError with a line for each refused run."""
    experiment = configuration.load(options.config)
    scale, requested = configuration.requested_tables(experiment, options)
    all_agree, refused = True, []
    for name, columns in requested.items():
        try:
            table = cells.fill(at_scale.table(experiment, scale, name, columns))
        except DataError as error:
            refused.append(f"{name}:\n{error}")
            continue
        lines, agrees = compare.with_paper(table)
        all_agree = all_agree and agrees
        print("\n".join([*lines, *(f"  {note}" for note in doubts.outdated(table.cells))]))
    if refused:
        raise DataError("\n".join(refused))
    return int(options.strict and not all_agree)
