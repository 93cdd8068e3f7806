"""Compares a table with the paper's, in lines of text."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping

from flatfed.plan.units import as_printed, plural, signed, written
from flatfed.tables import claims, compare
from flatfed.tables.cells import Cell, FilledTable


def verify(table: FilledTable) -> tuple[list[str], bool]:
    """Return the lines of the comparison, and whether all printed numbers agree and no claim is clearly reversed.

    Preview scale does not agree; a table without printed numbers does.
    """
    shown = table.shown
    name = f"{shown.id}, {shown.scale} scale"
    if shown.scale == "preview" and shown.document.reference != "none":
        return [f"{name}: a preview is not compared with the paper"], False
    printed = {(number.column, number.row) for number in shown.numbers if number.paper}  # including "-"
    if not printed:
        return [f"{name}: no printed numbers"], True
    columns = {
        column: {row: compare.agreement(cell) for row, cell in cells.items() if (column, row) in printed}
        for column, cells in table.by_column.items()
    }
    counts = Counter(state for states in columns.values() for state in states.values())
    judged, missing = sum(counts[state] for state in compare.JUDGED), counts["missing"]
    near = f"{counts['near']} near, " if counts["near"] else ""
    values = f"{counts['agrees']} of {judged} cells agree, {near}{counts['differs']} differ"
    if not judged and missing < len(printed):
        values = "values are not compared (another set-up)"
    lines, correlations = [f"{name}: {values}, {missing} missing"], []
    for column, states in columns.items():
        cells = table.by_column[column]
        correlation = compare.rank_correlation(cells)
        correlations += [] if correlation is None else [correlation]
        lines += _of_column(column, states, cells, correlation)
    mean = f"mean rank correlation {statistics.fmean(correlations):.2f}" if correlations else "no rank correlation"
    tested = claims.results(table.by_column.values())
    lines.append(f"  order: {mean}; {claims.summary(tested)}")
    for claim in tested:
        if claim.outcome in ("not held", "reversed clearly"):
            tests = plural(claim.columns, "column") + ("" if claim.p is None else f", p = {claim.p:.2g}")
            lines.append(f"    {claim.outcome:16} {claim.better} > {claim.worse} ({tests})")
    reversed_clearly = any(claim.outcome == "reversed clearly" for claim in tested)
    return lines, counts["agrees"] == judged and not missing and not reversed_clearly


def _of_column(
    column: str, states: Mapping[str, str], cells: Mapping[str, Cell], correlation: float | None
) -> Iterator[str]:
    """Yield the lines of a column, with the cells that do not agree."""
    counts = Counter(states.values())
    order = "" if correlation is None else f"; rank correlation {correlation:.2f}"
    yield f"  {column}: {counts['agrees']} of {sum(counts[state] for state in compare.JUDGED)} agree{order}"
    absent = [row for row, state in states.items() if state == "missing"]
    if absent:
        yield f"    missing  {', '.join(absent)}: {next(iter(cells[absent[0]].problems), 'no run')}"
    for row, state in states.items():
        if state in ("near", "differs"):
            yield f"    {state:7}  {row}: {_difference(cells[row])}"


def _difference(cell: Cell) -> str:
    unit, decimals = cell.printed_unit, cell.paper_decimals
    ours = written(cell.value, cell.spread, unit, decimals) or cell.status.replace("_", " ")
    paper = as_printed(cell.paper_value, compare.spread_over_seeds(cell), unit, decimals) or "–"
    reason = "only one of them is a number"
    if cell.difference is not None:
        ours += "" if cell.n is None else f" (n = {cell.n})"
        allowed = written(compare.tolerances(cell)[0], None, unit)
        reason = f"{signed(cell.difference, unit, decimals)}, allowed {allowed}"
    return f"ours {ours}, paper {paper}: {reason}"
