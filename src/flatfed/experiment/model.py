"""What the configuration resolves to: runs, cells, tables, figures. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flatfed.runs.run import Run
from flatfed.specs.cell import SCALES, CellSpec
from flatfed.specs.figure import FigureSpec

__all__ = ["SCALES", "Cell", "Column", "Drawing", "Figure", "Row", "Run", "Table"]


@dataclass(frozen=True)
class Cell:
    """One number of a table: ``spec`` is what ``flatfed cell`` takes, ``runs`` the runs it reads (the base row's too),
    ``log`` that of its job.

    ``inputs`` are the files it cannot do without; ``timed`` the runs of which it needs the seconds; ``analysed``:
    whether it reads the Hessians at the models of its runs.
    """

    path: str
    log: str
    runs: list[Run]
    spec: CellSpec
    inputs: list[str]
    timed: list[Run]
    analysed: bool


@dataclass(frozen=True)
class Row:
    """A row of a table: an algorithm; in a descriptive table the ``settings`` of its entry say what else.

    ``reference`` holds what the printed table says of the row otherwise than is said here.
    """

    id: str
    label: str
    algorithm: str | None
    reference: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table: a metric of one protocol and split, or of the mean over several splits.

    ``headers`` are the paper's header levels, outermost first; ``part`` is the block of the table it stands in;
    ``target`` is the name of the target accuracy in the protocol (t1, t2), None where the metric has none.
    ``relative`` says how a row is taken against its ``base`` row (an id, or ids by row). ``decentralised`` is the
    split of decentralised rows, * standing for the column's, ``decentralised_metric`` their metric where it is another.
    ``reference`` as in :class:`Row`; ``settings`` as in the YAML, for descriptive tables.
    """

    id: str
    protocol: str | None
    splits: tuple[str, ...]
    metric: str
    unit: str
    target: str | None
    headers: tuple[str, ...]
    part: str | None
    relative: str | None = None
    base: str | Mapping[str, str] | None = None
    decentralised: str = "*"
    decentralised_metric: str | None = None
    reference: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def split(self) -> str | None:
        """The split, the first where there are several, None where there is none."""
        return self.splits[0] if self.splits else None

    def base_of(self, row: str) -> str | None:
        """Return the id of the row that ``row`` is taken against, None where it is taken against none."""
        return self.base.get(row) if isinstance(self.base, Mapping) else self.base


@dataclass(frozen=True)
class Table:
    """A table: ``settings`` is its ``file``, validated; ``reference`` the name of the printed numbers, or None.

    ``bases`` are rows that others are taken against and that are not shown.
    """

    id: str
    file: str
    entries: Mapping[str, Row]
    columns: dict[str, Column]
    reference: str | None
    settings: dict[str, Any]
    bases: Mapping[str, Row] = field(default_factory=dict)

    def row(self, name: str) -> Row:
        """Return the row ``name``, shown or not."""
        return self.entries[name] if name in self.entries else self.bases[name]

    @property
    def rows(self) -> tuple[str, ...]:
        """The ids of the rows, in the paper's order."""
        return tuple(self.entries)


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: ``settings`` is its YAML, validated."""

    id: str
    kind: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A figure at a scale: ``spec`` is what ``flatfed figure`` takes, ``inputs`` the files it cannot do without.

    ``runs`` are those that it shows, by folder; ``analysed``: whether it reads Hessians or losses at their models.
    """

    spec: FigureSpec
    inputs: list[str]
    runs: dict[str, Run]
    analysed: bool
