"""A table with its cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial

from flatfed.plan.numbers import by_cell
from flatfed.plan.table_specs import TableSpec
from flatfed.plan.tables import Column, Row
from flatfed.tables import cells
from flatfed.tables.cell import Cell
from flatfed.tables.readings import read_all


@dataclass(frozen=True)
class FilledTable:
    """The layout of a table, and its cells ``by_column`` and row."""

    spec: TableSpec
    by_column: dict[str, dict[str, Cell]]

    @property
    def labelled_cells(self) -> list[tuple[Column, Row, Cell]]:
        """All cells with column and row, row by row."""
        columns, rows = self.spec.columns, self.spec.rows
        return [(column, row, self.by_column[column.id][row.id]) for row in rows for column in columns]

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for *_, cell in self.labelled_cells]

    @property
    def statuses(self) -> Counter[str]:
        """The number of cells with each status."""
        return Counter(cell.status for cell in self.cells)

    @cached_property
    def usual_n(self) -> int | None:
        """The number of seeds of most cells, or None."""
        seeds = Counter(cell.n for cell in self.cells if cell.value is not None and cell.n)
        return max(seeds, key=lambda n: (seeds[n], n), default=None)

    @cached_property
    def has_differences(self) -> bool:
        """Whether any cell has a difference from the paper."""
        return any(cell.difference is not None for cell in self.cells)


def fill(spec: TableSpec, *, so_far: bool = False) -> FilledTable:
    """Return the table ``spec`` with its cells; ``so_far``: also from unfinished runs.

    :raises DataError: runs are refused; the message has a line for each.
    """
    by_column: dict[str, dict[str, Cell]] = {column.id: {} for column in spec.columns}
    for cell in read_all(partial(cells.summarise, so_far=so_far), by_cell(spec.numbers).values()):
        by_column[cell.column][cell.row] = cell
    return FilledTable(spec, by_column)
