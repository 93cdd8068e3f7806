"""A table before it has a format: numbers written as text, headers merged, notes gathered.

Every format prints the same :class:`TypesetTable`: blocks one below the other (the paper's upper and lower part, and
one block per first header where a block would not fit a page), each with header rows and, per column, what
is ours, what the paper printed and the difference. Text here is plain Unicode; escaping is the format's
work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

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


#: The texts that a cell may have, in the order in which they are printed: attributes of ``Texts``.
PARTS = ("ours", "beside", "paper", "difference")


@dataclass(frozen=True)
class Texts:
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

    def part(self, name: str, escape: Callable[[str], str], ranks: Mapping[str, str], raised: str) -> str:
        """Return one of ``PARTS`` in a format, which ``escape``s text and has templates for ``ranks`` and marks."""
        text = escape(getattr(self, name))
        if name == "ours" and self.rank:
            return ranks[self.rank].format(text)
        return text + raised.format(",".join(self.marks)) if name == "paper" and self.marks else text


@dataclass(frozen=True)
class TableBlock:
    """Columns set side by side under the paper's headers; ``heading`` is the part and the headers they all share.

    ``under`` holds, column by column, the words over each of its ``PARTS``.
    """

    heading: str
    headers: tuple[tuple[Header, ...], ...]
    under: tuple[dict[str, str], ...]
    rows: tuple[tuple[str, tuple[Texts, ...]], ...]

    def spans(self, level: tuple[Header, ...]) -> list[tuple[str, int]]:
        """Return the headers of a level, each with the number of columns of numbers under it."""
        under = iter(self.under)
        return [(header.text, sum(map(len, islice(under, header.span)))) for header in level]


@dataclass(frozen=True)
class TypesetTable(FilledTable):
    """A table ready for printing.

    ``title`` is the paper's, and the scale; ``warnings`` are of other tools' estimates beside ours that are too far
    from them.
    """

    title: str
    subtitle: str
    blocks: tuple[TableBlock, ...]
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
) -> TableBlock:
    """Set columns of a table under what they have alike; ``ranks``: column id -> row id -> its mark.

    ``theirs`` comes before a heading.
    """
    headers = merge(columns)
    common = 0
    while common < len(headers) - 1 and len(headers[common]) == 1:
        common += 1
    heading = ", ".join(text for text in (part, *[level[0].text for level in headers[:common]]) if text)
    return TableBlock(
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
    )


def _under(table: FilledTable, column: Column) -> dict[str, str]:
    """Return the words under a column's headers, one for each of its numbers."""
    cells = list(table.by_column[column.id].values())
    ours, paper = targets(table.spec.paper_targets.get(column.id), cells)
    seeds = f"n = {table.usual}" if table.usual and any(cell.n for cell in cells) else ""
    words = {"ours": ", ".join(filter(None, [ours and f"here{ours}", seeds]))}
    if table.spec.printed:
        words = {"ours": f"ours{ours} ({seeds})" if seeds else f"ours{ours}", "paper": f"paper{paper}"}
        words |= {"difference": "diff."} if table.differences else {}
    if others := {cell.beside.by for cell in cells if cell.beside}:
        words["beside"] = "/".join(sorted(others))
    return {part: words[part] for part in PARTS if part in words}


def targets(printed: float | None, cells: list[Cell]) -> tuple[str, str]:
    """Return additions to "ours" and "paper" if this scale's target is not the ``printed`` one, else blanks."""
    used = {cell.target for cell in cells if cell.target is not None}
    if printed is None or not used or used == {printed}:
        return "", ""
    return " at " + "/".join(f"{100 * target:g}%" for target in sorted(used)), f" at {100 * printed:g}%"


def _entry(table: FilledTable, column: str, row: str, rank: str) -> Texts:
    """Write a cell's numbers as text: another number of seeds than the usual one, too."""
    cell = table.by_column[column][row]
    unit, decimals = cell.printed_unit, cell.paper_decimals
    spread = None if compare.over_clients(cell) else cell.paper_spread
    paper = as_printed(cell.paper_value, spread, unit, decimals)
    if not paper and compare.not_reached(cell):
        paper = "–"
    other = cell.beside
    beside = written(other.value, other.spread, unit, decimals) if other else ""
    return Texts(
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
