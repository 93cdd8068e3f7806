"""A table before it has a format: numbers as text, merged headers, notes.

A block is a part of the paper's table, or a piece of a part that is too wide for a page. Formats escape the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile, zip_longest

import pandas as pd

from flatfed.plan.at_scale import ShownTable
from flatfed.plan.tables import Column
from flatfed.plan.units import as_printed, signed, written
from flatfed.tables import cells, compare, set_up
from flatfed.tables.cells import Cell, FilledTable
from flatfed.tables.doubts import OTHER_PRECISION, other_precision
from flatfed.tables.notes import WARNED, gather, is_warned

#: Status of a red cell -> its meaning.
RED = {
    "not_reached": "a seed did not reach the target accuracy before the last round",
    "diverged": "a run ended in non-finite numbers",
}

#: The printed numbers of a cell, in order; "beside": another tool's estimate.
PARTS = ("ours", "beside", "paper", "difference")

#: The most columns of a part, else it is cut at the first header level, and then of a group, else it is cut between
#: metrics. Four columns of three numbers fill a page.
COLUMNS_ACROSS, MOST_ACROSS = 4, 5


@dataclass(frozen=True)
class TableBlock:
    """Columns side by side, as frames with a row per row of the table and a column per printed number.

    ``heading``: what the columns share. ``texts``: its columns have the other header levels, outermost first, and what
    the numbers are. Of the same shape: ``cells``; ``best``, whether the mean is the best of its column; ``errata`` of
    the paper's number. ``parts``: which of ``PARTS`` each column is.
    """

    heading: str
    texts: pd.DataFrame
    cells: pd.DataFrame
    best: pd.DataFrame
    errata: pd.DataFrame
    parts: list[str]

    def formatted(self, escape: Callable[[str], str], bold: str, raised: str, highlighted: str | None) -> pd.DataFrame:
        """Return the texts, escaped; ``bold``, ``raised``: templates of the best mean and of errata.

        The label of the row ``highlighted`` is bold, too.
        """
        texts = self.texts.map(escape)
        texts = texts.mask(self.best, texts.map(bold.format)) + self.errata.map(lambda ids: ids and raised.format(ids))
        names = {label: escape(label) for label in texts.index}
        names |= {highlighted: bold.format(names[highlighted])} if highlighted else {}
        texts.columns = texts.columns.map(lambda levels: tuple(map(escape, levels)))
        return texts.rename(index=names)


@dataclass(frozen=True)
class TypesetTable(FilledTable):
    """A table as text."""

    title: str
    subtitle: str
    blocks: list[TableBlock]
    notes: list[str]

    @property
    def id(self) -> str:
        """The table's id."""
        return self.shown.id

    @property
    def highlighted(self) -> str | None:
        """The label of the highlighted row."""
        row = self.shown.rows.get(self.shown.highlight)
        return row and row.label

    @property
    def red(self) -> list[str]:
        """The meanings of the red numbers in the table."""
        meanings = [meaning for status, meaning in RED.items() if self.statuses[status]]
        differ = "differs" in map(compare.agreement, self.cells)
        return meanings + ["the difference from the paper is larger than the tolerance"] * differ


def typeset(table: ShownTable, *, so_far: bool = False) -> TypesetTable:
    """Return ``table``, filled and as text; ``so_far``: also from unfinished runs.

    :raises DataError: runs are refused, with a line for each; a dataset.json is damaged.
    """
    filled = cells.fill(table, so_far=so_far)
    records = [record for cell in filled.cells for record in cell.records]
    sources = (("Paper", table.document.paper), ("Trained here", set_up.setting(table, set_up.image_counts(records))))
    return TypesetTable(
        table,
        filled.by_column,
        title=set_up.title(table),
        subtitle=". ".join(f"{label}: {text.rstrip('.')}" for label, text in sources if text),
        blocks=[_block(filled, columns) for columns in split(list(table.columns.values()))],
        notes=gather(filled),
    )


def split(columns: Sequence[Column]) -> list[list[Column]]:
    """Return the columns of each block: a part of the table, or a piece of a part that is too wide for a page."""
    sizes = Counter(column.part for column in columns)
    levels = {part: int(size > COLUMNS_ACROSS) for part, size in sizes.items()}
    groups = groupby(columns, key=lambda column: (column.part, column.headers[: levels[column.part]]))
    return [block for _, group in groups for block in _by_metric(list(group))]


def _by_metric(columns: list[Column]) -> list[list[Column]]:
    """Cut too many columns between metrics."""
    if len(columns) <= MOST_ACROSS:
        return [columns]
    blocks: list[list[Column]] = [[]]
    for _, group in groupby(columns, key=lambda column: column.metric):
        of_metric = list(group)
        if blocks[-1] and len(blocks[-1]) + len(of_metric) > COLUMNS_ACROSS:
            blocks.append([])
        blocks[-1] += of_metric
    return blocks


def _block(table: FilledTable, columns: list[Column]) -> TableBlock:
    levels = list(zip_longest(*(column.headers for column in columns), fillvalue=""))
    shared = [names[0] for names in takewhile(lambda names: len({*names}) == 1, levels[:-1])]
    headers = zip(*levels[len(shared) :], strict=True)
    labels, heads, parts = [row.label for row in table.shown.rows.values()], [], []
    texts, of_cells, best, errata = [], [], [], []
    for column, names in zip(columns, headers, strict=True):
        cells = table.by_column[column.id]
        best_rows = compare.best_rows(cells)
        written = [_texts(table, column, cell) for cell in cells.values()]
        for part, head in _under(table, column).items():
            heads.append((*names, head))
            parts.append(part)
            texts.append([of_cell[part] for of_cell in written])
            of_cells.append(list(cells.values()))
            best.append([part == "ours" and row in best_rows for row in cells])
            errata.append([",".join(cell.flags) if part == "paper" and of_cell[part] else ""
                           for cell, of_cell in zip(cells.values(), written, strict=True)])  # fmt: skip
    index = pd.MultiIndex.from_tuples(heads)
    frames = [pd.DataFrame(zip(*part, strict=True), labels, index) for part in (texts, of_cells, best, errata)]
    return TableBlock(", ".join(filter(None, (columns[0].part, *shared))), *frames, parts)


def _under(table: FilledTable, column: Column) -> dict[str, str]:
    cells = list(table.by_column[column.id].values())
    seeds = f"n = {table.usual_n}" if table.usual_n and any(cell.n for cell in cells) else ""
    texts = {"ours": seeds}
    if table.shown.printed:
        texts = {"ours": f"ours ({seeds})" if seeds else "ours", "paper": "paper"}
        texts |= {"difference": "diff."} if table.has_differences else {}
    if tools := {cell.beside.by for cell in cells if cell.beside}:
        texts["beside"] = "/".join(sorted(tools))
    return {part: texts[part] for part in PARTS if part in texts}


def _texts(table: FilledTable, column: Column, cell: Cell) -> dict[str, str]:
    """Return the text of each of ``PARTS``."""
    unit, decimals, estimate = cell.printed_unit, cell.decimals, cell.beside
    paper = as_printed(cell.paper[0], compare.spread_over_seeds(cell), unit, decimals)
    if not paper and compare.not_reached(cell):
        paper = "–"
    beside = written(estimate.value, estimate.spread, unit, decimals) if estimate else ""
    return {
        "ours": _ours(table, cell) + f" {OTHER_PRECISION}" * bool(other_precision(column, cell)),
        "beside": f"{beside} {WARNED}" if is_warned(cell) else beside,
        "paper": paper,
        "difference": "" if cell.difference is None else signed(cell.difference, unit, decimals),
    }


def _ours(table: FilledTable, cell: Cell) -> str:
    """Return our number, or the text in its place."""
    if cell.status == "ok":
        seeds = "" if cell.n in (table.usual_n, None) else f" ({cell.n})"
        return written(cell.value, cell.spread, cell.printed_unit, cell.decimals) + seeds
    if cell.status == "unfinished" and cell.reached is None:
        return f"round {cell.rounds}"
    if cell.status in ("not_reached", "unfinished"):
        yet = " yet" * (cell.status == "unfinished")
        late = f">{cell.rounds}" if cell.printed_unit == "rounds" else f"not reached{yet}"
        return late if cell.reached.startswith("0/") else f"{late} ({cell.reached})"
    return {"diverged": "diverged", "not_applicable": "n/a"}.get(cell.status, "")
