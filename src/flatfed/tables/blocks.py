"""A table before it has a format: cells read, numbers written as text, headers merged, notes gathered.
 Every format prints the same ``Table``: blocks one below the other (the paper's upper and lower part, and
one block per first header where a block would not fit a page), each with header rows and, per column, what
is ours, what the paper printed and the difference. Text here is plain Unicode; escaping is the format's
work.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flatfed.errors import DataError
from flatfed.papers import significance
from flatfed.papers.units import as_printed, each_seed, signed, written
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Cell
from flatfed.specs.table import ColumnSpec, RowSpec, TableSpec
from flatfed.tables import claims, compare, effects
from flatfed.tables.headers import Header, merge, split
from flatfed.tables.notes import WARNED, beside, by_column, flags, gather, marked, warned, warnings
from flatfed.tables.trained_on import as_read


@dataclass(frozen=True)
class Entry:
    """The printed texts of one cell; ``marks`` are the errata flags that stand behind the paper's number.

    ``rank`` is "best", "second" or "": a lead over the next row that the seeds bear out. ``agreement`` is that of
    ``flatfed.tables.compare``. ``beside`` is another tool's estimate, ``warned`` whether it is too far from ours.
    ``seeds`` is what every seed has, ``runs`` the folders of what ours is of.
    """

    ours: str
    paper: str
    difference: str
    status: str
    marks: tuple[str, ...] = ()
    rank: str = ""
    agreement: str = ""
    beside: str = ""
    warned: bool = False
    seeds: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Columns set side by side under the paper's headers; ``heading`` is the part and the headers they all share.

    ``beside`` is, column by column, who made the estimates beside ours, "" where there are none.
    """

    heading: str
    headers: tuple[tuple[Header, ...], ...]
    under: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    beside: tuple[str, ...]

    def spans(self, level: tuple[Header, ...]) -> list[tuple[str, int]]:
        """Return the headers of a level, each with the number of columns of numbers under it, others' included."""
        found, start = [], 0
        for header in level:
            end = start + header.span
            columns = sum(len(self.under[place]) + bool(self.beside[place]) for place in range(start, end))
            found.append((header.text, columns))
            start = end
        return found


@dataclass(frozen=True)
class Table:
    """A table ready for printing.

    ``name`` is the paper's title, ``title`` adds the scale; ``cells`` are (column, row, cell or None), row by row;
    ``marked`` are the notes on marks of best and second and on other tools' estimates beside ours, ``warnings`` those
    of the latter. ``printed``: whether a paper's numbers stand beside ours. ``effects``: what choices come to, over
    all columns.
    """

    id: str
    scale: str
    name: str
    title: str
    subtitle: str
    row_header: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    marked: tuple[str, ...]
    warnings: tuple[str, ...]
    counts: dict[str, int]
    differences: bool
    printed: bool
    cells: tuple[tuple[ColumnSpec, RowSpec, Cell | None], ...]
    effects: tuple[effects.Effect, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers a column has: ours; with ``printed`` ones the paper's and, where taken, the difference."""
        return 1 + self.printed + self.differences


def read(spec: TableSpec) -> Table:
    """Read the cells of a table specification and lay the table out.

    :raises DataError: a cell file or a dataset.json is damaged, or a cell belongs to another scale.
    """
    cells = cells_of(spec)
    setting = as_read(spec.setting, spec.datasets, [cell.images for cell in cells.values() if cell])
    sources = (("Paper", spec.paper), ("Trained here", setting))
    counts = Counter(cell.status if cell else "missing" for cell in cells.values())
    seeds = Counter(cell.n for cell in cells.values() if cell and cell.value is not None and cell.n)
    usual = max(seeds, key=lambda n: (seeds[n], n), default=None)
    differences = any(cell and cell.difference is not None for cell in cells.values())
    printed = spec.printed
    scale = "Preview scale" + ", not the paper's data" * printed + ": " if spec.scale == "preview" else ""
    theirs = "In the paper: " if scale and printed else ""
    pooled = effects.pooled(spec, cells) if spec.against else []
    verdict = effects.sentence(spec, pooled, effects.diverged(spec, cells)) if spec.against else ""
    columns = by_column(spec, list(cells.values()))
    marks = [{} for _ in columns] if spec.against else claims.marks(columns)
    ranks = {column.id: of_column for column, of_column in zip(spec.columns, marks, strict=True)}
    return Table(
        id=spec.table,
        scale=spec.scale,
        name=spec.title,
        title=scale + spec.title,
        subtitle=". ".join(f"{word}: {text.rstrip('.')}" for word, text in sources if text),
        row_header=spec.row_header,
        blocks=(
            *(
                _block(
                    part and theirs + part,
                    few,
                    spec.rows,
                    cells,
                    usual,
                    differences,
                    printed,
                    ranks,
                    bool(spec.against),
                )
                for part, few in split(spec.columns)
            ),
            *([_over_all(spec, pooled)] if spec.against else []),
        ),
        notes=tuple(gather(spec, list(cells.values()), counts, usual, differences, verdict)),
        marked=(
            *beside(list(cells.values())),
            *([] if spec.against else marked(columns, any(marks))),
        ),
        warnings=tuple(warnings(spec, cells)),
        counts={"cells": len(cells), **counts},
        differences=differences,
        printed=printed,
        cells=tuple((column, row, cells[column.id, row.id]) for row in spec.rows for column in spec.columns),
        effects=tuple(pooled),
    )


def cells_of(spec: TableSpec) -> dict[tuple[str, str], Cell | None]:
    """Return the cells of a table by column and row; DataError as :func:`cell_of`."""
    return {(column.id, row.id): cell_of(spec, column.id, row.id) for row in spec.rows for column in spec.columns}


def cell_of(spec: TableSpec, column: str, row: str) -> Cell | None:
    """Return the cell of a table in ``column`` and ``row``, None where it has not been made.

    :raises DataError: it is damaged, was edited, or is another table's, column's or row's.
    """
    path = Path(spec.cells) / column / f"{row}.json"
    cell = cell_files.read(path, spec.scale)
    for key, wanted in (("table", spec.table), ("column", column), ("row", row)):
        if cell is not None and (there := getattr(cell, key)) != wanted:
            raise DataError(f"{path}: is the cell of {key} {there!r}, here {wanted!r}; delete it and make it again")
    return cell


def _over_all(spec: TableSpec, pooled: list[effects.Effect]) -> Block:
    """Set what choices come to over all columns: the difference with its interval, p, p corrected, and the verdict."""
    texts = {effect.row: effect.texts for effect in pooled}
    lacking = Entry("", "", "", "missing")
    rows = tuple(
        (row.label, tuple(Entry(text, "", "", "ok") for text in texts[row.id]) if row.id in texts else (lacking,) * 4)
        for row in spec.rows
    )
    seeds = f"n = {len(pooled[0].values)}" if pooled else ""
    return Block(
        f"Over all {len(spec.columns)} columns" if len(spec.columns) > 1 else "Over its column",
        (tuple(Header(text, 1) for text in ("difference", "p", "p, Holm", "verdict")),),
        ((seeds,), ("sign flips",), (f"of {len(spec.rows)}",), ("",)),
        rows,
        ("",) * 4,
    )


def _block(part, columns, rows, cells, usual, differences, printed, ranks, interval) -> Block:
    """Set one block; ``ranks`` are the marks of its columns' rows, by the columns' ids."""
    under = []
    for column in columns:
        of_column = {row.id: cells[column.id, row.id] for row in rows}
        ours, paper = targets(column, list(of_column.values()))
        seeded = usual and any(cell and cell.n for cell in of_column.values())
        if printed:
            names = [f"ours{ours} (n = {usual})" if seeded else f"ours{ours}", f"paper{paper}"]
        else:
            names = [", ".join(filter(None, [ours.strip(), f"n = {usual}" if seeded else ""]))]
        under.append((*names, "diff.") if differences else tuple(names))
    body = tuple(
        (
            row.label,
            tuple(
                entry(cells[column.id, row.id], usual, ranks[column.id].get(row.id, ""), interval) for column in columns
            ),
        )
        for row in rows
    )
    headers = merge(columns)
    common = 0
    while common < len(headers) - 1 and len(headers[common]) == 1:
        common += 1
    heading = ", ".join(text for text in (part, *[level[0].text for level in headers[:common]]) if text)
    others = [
        {cell.beside["by"] for row in rows if (cell := cells[column.id, row.id]) and cell.beside} for column in columns
    ]
    return Block(heading, headers[common:], tuple(under), body, tuple("/".join(sorted(names)) for names in others))


def targets(column: ColumnSpec, cells: list[Cell | None]) -> tuple[str, str]:
    """Return what to add to "ours" and "paper" where this scale's target is not the printed one, else two blanks."""
    printed = column.paper_target
    used = {cell.target for cell in cells if cell and cell.target is not None}
    if printed is None or not used or used == {printed}:
        return "", ""
    return " at " + "/".join(f"{100 * target:g}%" for target in sorted(used)), f" at {100 * printed:g}%"


def entry(cell: Cell | None, usual: int | None, rank: str = "", interval: bool = False) -> Entry:
    """Write a cell's numbers as text. ``usual`` is the table's usual number of seeds; another one is written out.

    ``interval``: in place of the spread over seeds.
    """
    if cell is None:
        return Entry("", "", "", "missing")
    unit, decimals = cell.printed_unit, cell.paper_decimals
    spread = None if compare.over_clients(cell) else cell.paper_spread
    paper = as_printed(cell.paper_value, spread, unit, decimals)
    if not paper and compare.not_reached(cell):
        paper = "–"
    late = f">{cell.rounds}" if unit == "rounds" else "not reached"
    ours = {"not_reached": late, "diverged": "diverged", "not_applicable": "n/a"}.get(cell.status, "")
    if cell.status == "ok":
        known = effects.interval_text(significance.interval(cell.values), unit) if interval else None
        ours = known or written(cell.value, cell.spread, unit, decimals)
        ours += "" if cell.n in (usual, None) else f" ({cell.n})"
    elif cell.status == "not_reached" and not cell.reached.startswith("0/"):
        ours += f" ({cell.reached})"
    difference = "" if cell.difference is None else signed(cell.difference, unit, decimals)
    marks = flags(cell) if paper else ()
    other = cell.beside
    beside = written(other["value"], other["spread"], unit, decimals) if other else ""
    beside += f" {WARNED}" if warned(cell) else ""
    texts = ours, paper, difference, cell.status, marks, rank, compare.agreement(cell), beside, warned(cell)
    seeds = each_seed(cell.values, cell.seeds, unit, decimals)
    return Entry(*texts, seeds, tuple(cell.runs))
