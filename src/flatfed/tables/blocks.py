"""A table before it has a format: numbers as text, merged headers, notes.

A block is a part of the paper's table, or a piece of a part that is too wide for a page. Formats escape the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from flatfed.plan.tables import Column
from flatfed.plan.units import as_printed, each_seed, signed, written
from flatfed.tables import claims, compare
from flatfed.tables.cell import Cell
from flatfed.tables.filled_table import FilledTable
from flatfed.tables.headers import Header, merge, split
from flatfed.tables.image_counts import doubts, with_counts
from flatfed.tables.notes import WARNED, flags, gather, is_warned, warnings

#: Status of a red cell -> its meaning.
RED = {
    "not_reached": "a seed did not reach the target accuracy before the last round",
    "diverged": "a run ended in non-finite numbers",
}

#: The printed attributes of ``CellText``, in order.
PARTS = ("ours", "beside", "paper", "difference")


@dataclass(frozen=True)
class CellText:
    """The printed texts of one cell.

    ``marks``: errata of the paper's number. ``rank``: "best", "second" or "". ``beside``: another tool's estimate;
    ``warned``: it is too far from ours. ``seeds``: the number of each seed. ``runs``: run folders.
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

    def formatted(self, part: str, escape: Callable[[str], str], ranks: Mapping[str, str], raised: str) -> str:
        """Return one of ``PARTS``, escaped; ``ranks``, ``raised``: templates of marked numbers and errata."""
        text = escape(getattr(self, part))
        if part == "ours" and self.rank:
            return ranks[self.rank].format(text)
        return text + raised.format(",".join(self.marks)) if part == "paper" and self.marks else text


@dataclass(frozen=True)
class TableBlock:
    """Columns side by side; ``heading``: what they share; ``under``: {part: text above its numbers} per column."""

    heading: str
    headers: tuple[tuple[Header, ...], ...]
    under: tuple[dict[str, str], ...]
    rows: tuple[tuple[str, tuple[CellText, ...]], ...]

    def spans(self, level: tuple[Header, ...]) -> list[tuple[str, int]]:
        """Return (header, number of printed columns below it) of a level."""
        under = iter(self.under)
        return [(header.text, sum(map(len, islice(under, header.span)))) for header in level]


@dataclass(frozen=True)
class TypesetTable(FilledTable):
    """A table as text."""

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
        """The meanings of the red numbers in the table."""
        meanings = [meaning for status, meaning in RED.items() if self.statuses[status]]
        differ = "differs" in map(compare.agreement, self.cells)
        return meanings + ["the difference from the paper is larger than the tolerance"] * differ


def typeset(filled: FilledTable) -> TypesetTable:
    """Return a table as text.

    :raises DataError: a dataset.json is damaged.
    """
    spec = filled.spec
    ranks = dict(zip(filled.by_column, claims.marks(filled.by_column.values()), strict=True))
    setting = with_counts(spec.setting, spec.datasets, [cell.images for cell in filled.cells])
    sources = (("Paper", spec.paper), ("Trained here", setting))
    return TypesetTable(
        spec,
        filled.by_column,
        title=spec.prefix + spec.title,
        subtitle=". ".join(f"{label}: {text.rstrip('.')}" for label, text in sources if text),
        blocks=tuple(_block(filled, part, columns, ranks) for part, columns in split(spec.columns)),
        notes=(*gather(filled, any(ranks.values())), *doubts(spec.datasets, [cell.contents for cell in filled.cells])),
        warnings=tuple(warnings(filled)),
    )


def _block(
    table: FilledTable, part: str | None, columns: list[Column], ranks: Mapping[str, Mapping[str, str]]
) -> TableBlock:
    headers = merge(columns)
    common = 0
    while common < len(headers) - 1 and len(headers[common]) == 1:
        common += 1
    heading = ", ".join(text for text in (part, *[level[0].text for level in headers[:common]]) if text)

    def texts(row: str) -> tuple[CellText, ...]:
        return tuple(_text(table, table.by_column[c.id][row], ranks.get(c.id, {}).get(row, "")) for c in columns)

    return TableBlock(
        heading=heading,
        headers=headers[common:],
        under=tuple(_under(table, column) for column in columns),
        rows=tuple((row.label, texts(row.id)) for row in table.spec.rows),
    )


def _under(table: FilledTable, column: Column) -> dict[str, str]:
    cells = list(table.by_column[column.id].values())
    ours, paper = targets(table.spec.paper_targets.get(column.id), cells)
    seeds = f"n = {table.usual_n}" if table.usual_n and any(cell.n for cell in cells) else ""
    texts = {"ours": ", ".join(filter(None, [ours and f"here{ours}", seeds]))}
    if table.spec.printed:
        texts = {"ours": f"ours{ours} ({seeds})" if seeds else f"ours{ours}", "paper": f"paper{paper}"}
        texts |= {"difference": "diff."} if table.has_differences else {}
    if tools := {cell.beside.by for cell in cells if cell.beside}:
        texts["beside"] = "/".join(sorted(tools))
    return {part: texts[part] for part in PARTS if part in texts}


def targets(printed: float | None, cells: list[Cell]) -> tuple[str, str]:
    """Return additions to "ours" and "paper" if our target is not the ``printed`` one, else empty texts."""
    ours = {cell.target for cell in cells if cell.target is not None}
    if printed is None or not ours or ours == {printed}:
        return "", ""
    return " at " + "/".join(f"{100 * target:g}%" for target in sorted(ours)), f" at {100 * printed:g}%"


def _text(table: FilledTable, cell: Cell, rank: str) -> CellText:
    unit, decimals = cell.printed_unit, cell.paper_decimals
    spread = None if compare.over_clients(cell) else cell.paper_spread
    paper = as_printed(cell.paper_value, spread, unit, decimals)
    if not paper and compare.not_reached(cell):
        paper = "–"
    estimate, warned = cell.beside, is_warned(cell)
    beside = written(estimate.value, estimate.spread, unit, decimals) if estimate else ""
    return CellText(
        ours=_ours(table, cell),
        paper=paper,
        difference="" if cell.difference is None else signed(cell.difference, unit, decimals),
        status=cell.status,
        marks=flags(cell) if paper else (),
        rank=rank,
        agreement=compare.agreement(cell),
        beside=beside + f" {WARNED}" * warned,
        warned=warned,
        seeds=each_seed(cell.values, cell.seeds, unit, decimals),
        runs=tuple(cell.runs),
    )


def _ours(table: FilledTable, cell: Cell) -> str:
    """Return our number, or the text in its place."""
    if cell.status == "ok":
        seeds = "" if cell.n in (table.usual_n, None) else f" ({cell.n})"
        return written(cell.value, cell.spread, cell.printed_unit, cell.paper_decimals) + seeds
    if cell.status == "unfinished" and cell.reached is None:
        return f"round {cell.rounds}"
    if cell.status in ("not_reached", "unfinished"):
        yet = " yet" * (cell.status == "unfinished")
        late = f">{cell.rounds}" if cell.printed_unit == "rounds" else f"not reached{yet}"
        return late if cell.reached.startswith("0/") else f"{late} ({cell.reached})"
    return {"diverged": "diverged", "not_applicable": "n/a"}.get(cell.status, "")
