"""A table with its cells."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from flatfed.experiment.model import CellSpec, Column, Row, TableSpec
from flatfed.tables import cells
from flatfed.tables.cell import Cell
from flatfed.tables.readings import read_all


@dataclass(frozen=True)
class FilledTable:
    """The layout of a table, and its cells ``by_column`` and row."""

    spec: TableSpec
    by_column: dict[str, dict[str, Cell]]

    @property
    def columns(self) -> list[dict[str, Cell]]:
        """The cells of every column, by row."""
        return list(self.by_column.values())

    @property
    def cells(self) -> list[tuple[Column, Row, Cell]]:
        """All cells, row by row, each with its column and row."""
        return [
            (column, row, self.by_column[column.id][row.id]) for row in self.spec.rows for column in self.spec.columns
        ]

    @property
    def made(self) -> list[Cell]:
        """The cells, row by row."""
        return [cell for *_, cell in self.cells]

    @property
    def statuses(self) -> Counter[str]:
        """How many cells are of which status."""
        return Counter(cell.status for cell in self.made)

    @cached_property
    def usual(self) -> int | None:
        """The number of seeds that most cells have, None where seeds have no part in any."""
        seeds = Counter(cell.n for cell in self.made if cell.value is not None and cell.n)
        return max(seeds, key=lambda n: (seeds[n], n), default=None)

    @cached_property
    def differences(self) -> bool:
        """Whether differences between ours and the paper's are taken."""
        return any(cell.difference is not None for cell in self.made)


def fill(layout: TableSpec, specs: Iterable[CellSpec], *, so_far: bool = False) -> FilledTable:
    """Return a table with the cells of ``specs``, computed from their runs; ``so_far``: from unfinished ones, too.

    :raises DataError: runs are refused; the message has a line for each.
    """
    by_column: dict[str, dict[str, Cell]] = {column.id: {} for column in layout.columns}
    for cell in read_all(functools.partial(cells.compute, so_far=so_far), specs):
        by_column[cell.column][cell.row] = cell
    return FilledTable(layout, by_column)
