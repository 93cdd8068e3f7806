"""Splits the columns of a table into blocks that fit a page, and merges equal headers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from flatfed.plan.tables import Column

#: The most columns of a part, else it is cut at the first header level, and then of a group, else it is cut between
#: metrics. Four columns of three numbers fill a page.
COLUMNS_ACROSS, MOST_ACROSS = 4, 5


@dataclass(frozen=True)
class Header:
    """A merged header and the number of its columns."""

    text: str
    span: int


def split(columns: list[Column]) -> list[tuple[str | None, list[Column]]]:
    """Return blocks (part, columns): one per part, or several if it is too wide for a page."""
    blocks: list[tuple[str | None, list[Column]]] = []
    for part, group in groupby(columns, key=lambda column: column.part):
        of_part = list(group)
        levels = int(len(of_part) > COLUMNS_ACROSS)
        for _, under_header in groupby(of_part, key=lambda column: column.headers[:levels]):
            blocks += [(part, block) for block in _by_metric(list(under_header))]
    return blocks


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


def merge(columns: list[Column]) -> tuple[tuple[Header, ...], ...]:
    """Return the header rows; neighbours merge if they and all levels above are equal."""
    depth = max(len(column.headers) for column in columns)
    padded = [[*column.headers, *[""] * (depth - len(column.headers))] for column in columns]
    rows = []
    for level in range(depth):
        groups = [list(group) for _, group in groupby(padded, key=lambda names: names[: level + 1])]
        rows.append(tuple(Header(group[0][level], len(group)) for group in groups))
    return tuple(rows)
