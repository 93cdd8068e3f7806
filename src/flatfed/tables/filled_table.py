"""A table with its cells, as far as they have been made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flatfed.errors import DataError
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Cell
from flatfed.specs.table import ColumnSpec, RowSpec, TableSpec


@dataclass(frozen=True)
class FilledTable:
    """What is asked of a table, and its cells ``by_column`` and row, None where one has not been made."""

    spec: TableSpec
    by_column: dict[str, dict[str, Cell | None]]

    @property
    def columns(self) -> list[dict[str, Cell | None]]:
        """The cells of every column, by row."""
        return list(self.by_column.values())

    @property
    def cells(self) -> list[tuple[ColumnSpec, RowSpec, Cell | None]]:
        """All cells, row by row, each with its column and row."""
        return [
            (column, row, self.by_column[column.id][row.id]) for row in self.spec.rows for column in self.spec.columns
        ]

    @property
    def made(self) -> list[Cell]:
        """The cells that have been made, row by row."""
        return [cell for *_, cell in self.cells if cell]

    @property
    def statuses(self) -> Counter[str]:
        """How many cells are of which status."""
        return Counter(cell.status if cell else "missing" for *_, cell in self.cells)

    @cached_property
    def usual(self) -> int | None:
        """The number of seeds that most cells have, None where seeds have no part in any."""
        seeds = Counter(cell.n for cell in self.made if cell.value is not None and cell.n)
        return max(seeds, key=lambda n: (seeds[n], n), default=None)

    @cached_property
    def differences(self) -> bool:
        """Whether differences between ours and the paper's are taken."""
        return any(cell.difference is not None for cell in self.made)


def read(spec: TableSpec) -> FilledTable:
    """Return a table with its cells.

    :raises DataError: one is damaged, was edited, or is of another scale, table, column or row.
    """
    cells = {column.id: {row.id: _cell(spec, column.id, row.id) for row in spec.rows} for column in spec.columns}
    return FilledTable(spec, cells)


def _cell(spec: TableSpec, column: str, row: str) -> Cell | None:
    path = Path(spec.cells) / column / f"{row}.json"
    cell = cell_files.read(path, spec.scale)
    for key, wanted in (("table", spec.table), ("column", column), ("row", row)):
        if cell is not None and (there := getattr(cell, key)) != wanted:
            raise DataError(f"{path}: is the cell of {key} {there!r}, here {wanted!r}; delete it and make it again")
    return cell
