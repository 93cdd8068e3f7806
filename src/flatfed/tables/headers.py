"""The columns of a table under the paper's headers: cut into blocks that fit a page, equal headers merged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from flatfed.experiment.model import Column

#: A block with more columns than this is cut at the paper's first header level: three numbers a column fill
#: a page. What is then still wider than the second is cut between metrics.
COLUMNS_ACROSS, MOST_ACROSS = 4, 5


@dataclass(frozen=True)
class Header:
    """A merged header: its text and how many of the paper's columns it spans."""

    text: str
    span: int


def split(columns: list[Column]) -> list[tuple[str | None, list[Column]]]:
    """Cut columns into blocks: by part; where one is too wide for a page, at the first header level and by metric."""
    blocks: list[tuple[str | None, list[Column]]] = []
    for part, group in groupby(columns, key=lambda column: column.part):
        wide = list(group)
        if len(wide) <= COLUMNS_ACROSS:
            blocks.append((part, wide))
        else:
            for _, few in groupby(wide, key=lambda column: column.headers[:1]):
                blocks += [(part, near) for near in _by_metric(list(few))]
    return blocks


def _by_metric(columns: list[Column]) -> list[list[Column]]:
    """Cut columns under one header, where there are too many, between metrics; those of one metric stay together."""
    if len(columns) <= MOST_ACROSS:
        return [columns]
    blocks: list[list[Column]] = [[]]
    for _, group in groupby(columns, key=lambda column: column.metric):
        few = list(group)
        if blocks[-1] and len(blocks[-1]) + len(few) > COLUMNS_ACROSS:
            blocks.append([])
        blocks[-1] += few
    return blocks


def merge(columns: list[Column]) -> tuple[tuple[Header, ...], ...]:
    """Return the header rows of columns: equal neighbours become one where all levels above agree too."""
    depth = max(len(column.headers) for column in columns)
    levels = [[*column.headers, *[""] * (depth - len(column.headers))] for column in columns]
    rows = []
    for level in range(depth):
        groups = [list(group) for _, group in groupby(levels, key=lambda names: names[: level + 1])]
        rows.append(tuple(Header(group[0][level], len(group)) for group in groups))
    return tuple(rows)
