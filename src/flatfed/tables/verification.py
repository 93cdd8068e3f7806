"""A table held against the paper's: which cells agree, which differ, which are missing, and whether the order does."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from flatfed.papers.units import as_printed, signed, written
from flatfed.tables import compare
from flatfed.tables.cell import Cell
from flatfed.tables.claims import Answer, answers
from flatfed.tables.filled_table import FilledTable


@dataclass(frozen=True)
class CellResult:
    """A cell that does not agree: ``state`` is "differs" or "missing", the rest is text for a reader."""

    row: str
    state: str
    ours: str
    paper: str
    why: str


@dataclass(frozen=True)
class ColumnResult:
    """One column: how many of its printed numbers agree, the cells that do not, the order of its rows."""

    column: str
    agree: int
    cells: tuple[CellResult, ...]
    correlation: float | None

    def count(self, state: str) -> int:
        """Return how many cells are in ``state``: agrees, differs or missing."""
        return self.agree if state == "agrees" else sum(cell.state == state for cell in self.cells)


@dataclass(frozen=True)
class TableResult:
    """All columns of a table at one scale; ``printed`` is how many of its numbers the paper prints.

    ``claims`` are the printed ones that a row beats another, each over all columns that print it.
    """

    table: str
    scale: str
    printed: int
    columns: tuple[ColumnResult, ...]
    claims: tuple[Answer, ...]

    def count(self, state: str) -> int:
        """Return how many cells are in ``state``, as :meth:`ColumnResult.count`."""
        return sum(column.count(state) for column in self.columns)

    def correlation(self) -> float | None:
        """Return the mean over the columns of the rank correlation, None where no column has one."""
        found = [column.correlation for column in self.columns if column.correlation is not None]
        return statistics.fmean(found) if found else None

    @property
    def stands(self) -> bool:
        """Whether, at paper scale, nothing differs or is missing and no claim is clearly reversed."""
        reversed_clearly = any(claim.outcome == "reversed clearly" for claim in self.claims)
        return self.scale == "paper" and not (self.count("differs") or self.count("missing") or reversed_clearly)


def table(cells: FilledTable, printed: set[tuple[str, str]]) -> TableResult:
    """Compare the cells of a table with the printed numbers.

    ``printed`` are the (column, row) of which the paper prints something, "-" included.
    """
    columns = tuple(
        _column(name, of_column, {row for row in of_column if (name, row) in printed})
        for name, of_column in cells.by_column.items()
    )
    return TableResult(cells.spec.table, cells.spec.scale, len(printed), columns, tuple(answers(cells.columns)))


def _column(name: str, cells: dict[str, Cell], printed: set[str]) -> ColumnResult:
    """Compare the cells of a column by row; ``printed`` are the rows of which the paper prints something."""
    states = {row: compare.agreement(cell) for row, cell in cells.items() if row in printed}
    return ColumnResult(
        name,
        agree=list(states.values()).count("agrees"),
        cells=tuple(
            _cell(row, cells[row], state) for row, state in states.items() if state in ("differs", "missing")
        ),
        correlation=compare.rank_correlation(cells),
    )


def _cell(row: str, cell: Cell, state: str) -> CellResult:
    """Put a cell that does not agree into words."""
    unit, decimals = cell.printed_unit, cell.paper_decimals
    ours = written(cell.value, cell.spread, unit, decimals) or cell.status.replace("_", " ")
    paper = as_printed(cell.paper_value, cell.paper_spread, unit, decimals) or "–"
    if state == "missing":
        return CellResult(row, state, "", paper, cell.problems[0] if cell.problems else "no run")
    if cell.difference is None:
        return CellResult(row, state, ours, paper, "one has a number and the other none")
    allowed = written(compare.tolerance(cell), None, unit)
    seeds = "" if cell.n is None else f" (n = {cell.n})"
    return CellResult(row, state, ours + seeds, paper, f"{signed(cell.difference, unit, decimals)}, allowed {allowed}")
