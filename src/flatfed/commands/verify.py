"""``flatfed verify``.

Compares the cells of the runs in results/ with the printed numbers, column by column:
  agrees    |ours - printed| <= max(1 point, 2 s / sqrt(n)), s: our deviation over n seeds. Rounds, costs and times:
            10 % of the printed number instead of 1 point. Declared costs and facts: exactly. `tolerance` and
            `not_judged` of a table replace this; a larger difference can then be near
  claims    a row beats another in print: by over 1 point of accuracy, or in another number. Held: also in our mean over
            the columns. Clearly: significant by the exact sign-flip test over seeds with Holm's correction for all
            claims of the table (one claim needs 6 seeds, 200 need 13)
  order     Spearman's rank correlation of the rows with the paper's
Tables with another set-up than the paper: only the order. Preview scale: nothing is verified.

example:
  python -m flatfed verify fedsmoo2023_T1 --scale paper --strict
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import flag
from flatfed.errors import DataError
from flatfed.plan import table_specs
from flatfed.plan.units import plural
from flatfed.tables import claims, filled_table, notes, verification
from flatfed.tables.compare import JUDGED
from flatfed.tables.verification import TableResult

ARGUMENTS = [
    *arguments.TABLES,
    flag("--strict", "exit with 1 unless all numbers agree and no claim is clearly reversed"),
]


def run(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit status; DataError with a line for each refused run."""
    experiment = configuration.load(options.config)
    scale, requested = configuration.requested_tables(experiment, options)
    results, refused = [], []
    for name, columns in requested.items():
        spec = table_specs.table_spec(experiment, scale, name, columns)
        printed = {(number.column, number.row) for number in spec.numbers if number.paper}
        try:
            filled = filled_table.fill(spec)
        except DataError as error:
            refused.append(f"{name}:\n{error}")
            continue
        results.append(verification.compare_table(filled, printed))
        print("\n".join([*lines(results[-1]), *(f"  {note}" for note in notes.outdated(filled.cells))]))
    if refused:
        raise DataError("\n".join(refused))
    return int(options.strict and not all(result.stands for result in results if result.printed))


def lines(result: TableResult) -> Iterator[str]:
    """Yield the lines of the comparison of a table, with the claims that do not hold."""
    name, missing = f"{result.table}, {result.scale} scale", result.count("missing")
    if not result.printed:
        yield f"{name}: no printed numbers"
        return
    if result.scale == "preview":
        yield f"{name}: {result.printed - missing} of {result.printed} cells made; this scale is not verified"
        return
    agree, near, differ = map(result.count, JUDGED)
    values = f"{agree} of {agree + near + differ} cells agree, {f'{near} near, ' if near else ''}{differ} differ"
    if not agree + near + differ and missing < result.printed:
        values = "values are not compared (another set-up)"
    yield f"{name}: {values}, {missing} missing"
    for column in result.columns:
        agree, judged = column.counts["agrees"], sum(column.counts[state] for state in JUDGED)
        correlation = "" if column.correlation is None else f"; rank correlation {column.correlation:.2f}"
        yield f"  {column.column}: {agree} of {judged} agree{correlation}"
        absent = [cell for cell in column.cells if cell.state == "missing"]
        if absent:
            yield f"    missing  {', '.join(cell.row for cell in absent)}: {absent[0].text}"
        for cell in column.cells:
            if cell.state != "missing":
                yield f"    {cell.state:7}  {cell.row}: {cell.text}"
    correlation = result.correlation()
    mean = "no rank correlation" if correlation is None else f"mean rank correlation {correlation:.2f}"
    yield f"  order: {mean}; {claims.summary(result.claims)}"
    for claim in result.claims:
        if claim.outcome in ("not held", "reversed clearly"):
            p = "" if claim.p is None else f", p = {claim.p:.2g}"
            yield f"    {claim.outcome:16} {claim.better} > {claim.worse} ({plural(claim.columns, 'column')}{p})"
