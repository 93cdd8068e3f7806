"""``flatfed verify``: our tables compared with the papers'.

Computes the cells from the runs in results/ and reports, column by column:
  agrees    |ours - paper's| <= max(1 point, 2 s / sqrt(n)): s our deviation over n seeds (rounds, costs,
            times: a tenth of the printed number in place of the point; declared costs and facts: exactly)
  differs   it does not; missing: a run is not there
  claims    a printed accuracy ahead of another by more than a point, or another number ahead at all, is a
            claim that one row beats the other. Held: ours is ahead too, in the mean over all columns that
            print it; clearly: significant by the exact sign-flip test over seeds, corrected for all claims
            of the table (Holm; a single claim needs six seeds, two hundred need thirteen)
  order     Spearman's rank correlation of the rows, ours against the paper's
Where a table's set-up is not the paper's, only the order is compared. At preview scale nothing is verified.

example:
  python -m flatfed verify fedsmoo2023_T1 --scale paper --strict
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import flag
from flatfed.errors import DataError
from flatfed.experiment import cell_specs, table_specs
from flatfed.papers.units import many
from flatfed.tables import claims, filled_table, verification
from flatfed.tables.verification import TableResult

ARGUMENTS = [
    *arguments.TABLES,
    flag("--strict", "exit with status 1 unless every printed number agrees and no claim is clearly reversed"),
]


def run(options: argparse.Namespace) -> int:
    """Print how the cells of the tables (none named: those of config.yaml) compare with the papers'; return a status.

    :raises ConfigError: there is no such table.
    :raises DataError: runs are refused; the message has a line for each.
    """
    experiment = configuration.load(options.config)
    scale, asked = configuration.asked_tables(experiment, options)
    results, refused = [], []
    for name, columns in asked:
        specs = cell_specs.cells(experiment, scale, name, columns)
        printed = {(spec.column, spec.row) for spec in specs if spec.paper}
        try:
            filled = filled_table.fill(table_specs.table_spec(experiment, scale, name, columns), specs)
        except DataError as error:
            refused.append(f"{name}:\n{error}")
            continue
        results.append(verification.compare_table(filled, printed))
        print("\n".join(lines(results[-1])))
    if refused:
        raise DataError("\n".join(refused))
    return int(options.strict and not all(result.stands for result in results if result.printed))


def lines(result: TableResult) -> Iterator[str]:
    """Yield how a table compares with the paper's, line by line; of its claims those that do not hold."""
    name, missing = f"{result.table}, {result.scale} scale", result.count("missing")
    if not result.printed:
        yield f"{name}: nothing printed to compare with"
        return
    if result.scale == "preview":
        yield f"{name}: {result.printed - missing} of {result.printed} cells made; at this scale none is verified"
        return
    agree, differ = result.count("agrees"), result.count("differs")
    values = f"{agree} of {agree + differ} cells agree, {differ} differ"
    if not agree + differ and missing < result.printed:
        values = "values are not compared (not the paper's set-up)"
    yield f"{name}: {values}, {missing} missing"
    for column in result.columns:
        agree, differ = column.counts["agrees"], column.counts["differs"]
        correlation = "" if column.correlation is None else f"; rank correlation {column.correlation:.2f}"
        yield f"  {column.column}: {agree} of {agree + differ} agree{correlation}"
        absent = [cell for cell in column.cells if cell.state == "missing"]
        if absent:
            yield f"    missing  {', '.join(cell.row for cell in absent)}: {absent[0].text}"
        for cell in column.cells:
            if cell.state == "differs":
                yield f"    differs  {cell.row}: {cell.text}"
    correlation = result.correlation()
    mean = "no rank correlation" if correlation is None else f"mean rank correlation {correlation:.2f}"
    yield f"  order: {mean}; {claims.summary(result.claims)}"
    for claim in result.claims:
        if claim.outcome in ("not held", "reversed clearly"):
            p = "" if claim.p is None else f", p = {claim.p:.2g}"
            yield f"    {claim.outcome:16} {claim.better} > {claim.worse} ({many(claim.columns, 'column')}{p})"
