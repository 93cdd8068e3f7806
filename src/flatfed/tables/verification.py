"""Compares a table with the paper's."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from flatfed.plan.units import as_printed, signed, written
from flatfed.tables import claims, compare
from flatfed.tables.cell import Cell
from flatfed.tables.claims import ClaimResult
from flatfed.tables.filled_table import FilledTable

#: States of cells that do not agree.
FAILED = ("near", "differs", "missing")


@dataclass(frozen=True)
class CellResult:
    """A cell in one of the states ``FAILED``, and a text about it."""

    row: str
    state: str
    text: str


@dataclass(frozen=True)
class ColumnResult:
    """One column: number of cells by state, ``cells`` that do not agree, rank correlation of the rows."""

    column: str
    counts: Counter[str]
    cells: list[CellResult]
    correlation: float | None


@dataclass(frozen=True)
class TableResult:
    """A table at one scale; ``printed``: its number of printed cells."""

    table: str
    scale: str
    printed: int
    columns: list[ColumnResult]
    claims: list[ClaimResult]

    def count(self, state: str) -> int:
        """Return the number of cells in ``state``: "agrees", "near", "differs" or "missing"."""
        return sum(column.counts[state] for column in self.columns)

    def correlation(self) -> float | None:
        """Return the mean rank correlation over columns, or None."""
        correlations = [column.correlation for column in self.columns if column.correlation is not None]
        return statistics.fmean(correlations) if correlations else None

    @property
    def stands(self) -> bool:
        """Whether, at paper scale, all printed numbers agree and no claim is clearly reversed."""
        reversed_clearly = any(claim.outcome == "reversed clearly" for claim in self.claims)
        return self.scale == "paper" and not (reversed_clearly or any(map(self.count, FAILED)))


def compare_table(table: FilledTable, printed: set[tuple[str, str]]) -> TableResult:
    """Compare a table with the paper's; ``printed``: (column, row) of all printed cells, including "-"."""
    columns = [
        _column(name, {row: cell for row, cell in cells.items() if (name, row) in printed}, cells)
        for name, cells in table.by_column.items()
    ]
    results = claims.results(table.by_column.values())
    return TableResult(table.spec.table, table.spec.scale, len(printed), columns, results)


def _column(name: str, printed: dict[str, Cell], cells: dict[str, Cell]) -> ColumnResult:
    states = {row: compare.agreement(cell) for row, cell in printed.items()}
    failed = [_cell(row, cells[row], state) for row, state in states.items() if state in FAILED]
    return ColumnResult(name, Counter(states.values()), failed, compare.rank_correlation(cells))


def _cell(row: str, cell: Cell, state: str) -> CellResult:
    if state == "missing":
        return CellResult(row, state, cell.problems[0] if cell.problems else "no run")
    unit, decimals = cell.printed_unit, cell.paper_decimals
    ours = written(cell.value, cell.spread, unit, decimals) or cell.status.replace("_", " ")
    paper = as_printed(cell.paper_value, cell.paper_spread, unit, decimals) or "–"
    reason = "only one of them is a number"
    if cell.difference is not None:
        ours += "" if cell.n is None else f" (n = {cell.n})"
        allowed = written(compare.tolerances(cell)[0], None, unit)
        reason = f"{signed(cell.difference, unit, decimals)}, allowed {allowed}"
    return CellResult(row, state, f"ours {ours}, paper {paper}: {reason}")
