"""A table before it has a format: numbers written as text, headers merged, notes gathered.

Every format prints the same :class:`TypesetTable`: blocks one below the other (the paper's upper and lower part, and
one block per first header where a block would not fit a page), each with header rows and, per column, what
is ours, what the paper printed and the difference. Text here is plain Unicode; escaping is the format's
work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flatfed.experiment.model import Column
from flatfed.papers.units import as_printed, each_seed, signed, written
from flatfed.tables import claims, compare
from flatfed.tables.cell import Cell
from flatfed.tables.filled_table import FilledTable
from flatfed.tables.headers import Header, merge, split
from flatfed.tables.notes import WARNED, flags, gather, warned, warnings
from flatfed.tables.trained_on import as_read

#: Status of a cell that is red -> its meaning.
RED = {
    "not_reached": "a seed did not reach the target accuracy before the last round",
    "diverged": "a run ended in non-finite numbers",
}


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
class TypesetTable(FilledTable):
    """A table ready for printing.

    ``title`` is the paper's, and the scale; ``warnings`` are of other tools' estimates beside ours that are too far
    from them.
    """

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def id(self) -> str:
        """The table's id."""
        return self.spec.table

    @property
    def red(self) -> list[str]:
        """The meanings of the red numbers that the table has."""
        meanings = [meaning for status, meaning in RED.items() if self.statuses[status]]
        differ = "differs" in map(compare.agreement, self.made)
        return meanings + ["the difference from the paper is larger than the tolerance"] * differ

    @property
    def numbers(self) -> int:
        """How many numbers a column has: ours; with ``printed`` ones the paper's and, where taken, the difference."""
        return 1 + self.spec.printed + self.differences


def typeset(filled: FilledTable) -> TypesetTable:
    """Return a table ready for printing.

    :raises DataError: a dataset.json is damaged.
    """
    spec = filled.spec
    ranks = dict(zip(filled.by_column, claims.marks(filled.columns), strict=True))
    scale = "Preview scale" + ", not the paper's data" * spec.printed + ": " if spec.scale == "preview" else ""
    theirs = "In the paper: " if scale and spec.paper else ""
    setting = as_read(spec.setting, spec.datasets, [cell.images for cell in filled.made])
    sources = (("Paper", spec.paper), ("Trained here", setting))
    blocks = (_block(filled, theirs, part, few, ranks) for part, few in split(spec.columns))
    return TypesetTable(
        spec,
        filled.by_column,
        title=scale + spec.title,
        subtitle=". ".join(f"{word}: {text.rstrip('.')}" for word, text in sources if text),
        blocks=tuple(blocks),
        notes=tuple(gather(filled, any(ranks.values()))),
        warnings=tuple(warnings(filled)),
    )


def _block(
    table: FilledTable, theirs: str, part: str | None, columns: list[Column], ranks: Mapping[str, Mapping[str, str]]
) -> Block:
    """Set columns of a table under what they have alike; ``ranks``: column id -> row id -> its mark.

    ``theirs`` comes before a heading.
    """
    headers = merge(columns)
    common = 0
    while common < len(headers) - 1 and len(headers[common]) == 1:
        common += 1
    heading = ", ".join(text for text in (part, *[level[0].text for level in headers[:common]]) if text)
    return Block(
        heading=heading and theirs + heading,
        headers=headers[common:],
        under=tuple(_under(table, column) for column in columns),
        rows=tuple(
            (
                row.label,
                tuple(_entry(table, column.id, row.id, ranks.get(column.id, {}).get(row.id, "")) for column in columns),
            )
            for row in table.spec.rows
        ),
        beside=tuple(_others(table, column.id) for column in columns),
    )


def _under(table: FilledTable, column: Column) -> tuple[str, ...]:
    """Return the words under a column's headers, one for each of its numbers."""
    cells = list(table.by_column[column.id].values())
    ours, paper = targets(table.spec.paper_targets.get(column.id), cells)
    seeds = f"n = {table.usual}" if table.usual and any(cell.n for cell in cells) else ""
    if not table.spec.printed:
        return (", ".join(filter(None, [ours and f"here{ours}", seeds])),)
    names = f"ours{ours} ({seeds})" if seeds else f"ours{ours}", f"paper{paper}"
    return (*names, "diff.") if table.differences else names


def _others(table: FilledTable, column: str) -> str:
    """Return who else made estimates in a column, "" where nobody did."""
    return "/".join(sorted({cell.beside.by for cell in table.by_column[column].values() if cell.beside}))


def targets(printed: float | None, cells: list[Cell]) -> tuple[str, str]:
    """Return additions to "ours" and "paper" if this scale's target is not the ``printed`` one, else blanks."""
    used = {cell.target for cell in cells if cell.target is not None}
    if printed is None or not used or used == {printed}:
        return "", ""
    return " at " + "/".join(f"{100 * target:g}%" for target in sorted(used)), f" at {100 * printed:g}%"


def _entry(table: FilledTable, column: str, row: str, rank: str) -> Entry:
    """Write a cell's numbers as text: another number of seeds than the usual one, too."""
    cell = table.by_column[column][row]
    unit, decimals = cell.printed_unit, cell.paper_decimals
    spread = None if compare.over_clients(cell) else cell.paper_spread
    paper = as_printed(cell.paper_value, spread, unit, decimals)
    if not paper and compare.not_reached(cell):
        paper = "–"
    other = cell.beside
    beside = written(other.value, other.spread, unit, decimals) if other else ""
    return Entry(
        ours=_ours(table, cell),
        paper=paper,
        difference="" if cell.difference is None else signed(cell.difference, unit, decimals),
        status=cell.status,
        marks=flags(cell) if paper else (),
        rank=rank,
        agreement=compare.agreement(cell),
        beside=beside + (f" {WARNED}" if warned(cell) else ""),
        warned=warned(cell),
        seeds=each_seed(cell.values, cell.seeds, unit, decimals),
        runs=tuple(cell.runs),
    )


def _ours(table: FilledTable, cell: Cell) -> str:
    """Write our number, or what stands in its place."""
    if cell.status == "ok":
        seeds = "" if cell.n in (table.usual, None) else f" ({cell.n})"
        return written(cell.value, cell.spread, cell.printed_unit, cell.paper_decimals) + seeds
    if cell.status == "unfinished" and cell.reached is None:
        return f"round {cell.rounds}"
    if cell.status in ("not_reached", "unfinished"):
        yet = " yet" * (cell.status == "unfinished")
        late = f">{cell.rounds}" if cell.printed_unit == "rounds" else f"not reached{yet}"
        return late if cell.reached.startswith("0/") else f"{late} ({cell.reached})"
    return {"diverged": "diverged", "not_applicable": "n/a"}.get(cell.status, "")
