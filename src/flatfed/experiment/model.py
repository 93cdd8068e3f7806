"""What the configuration resolves to: runs, cells, tables, figures. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flatfed.runs.run import Run
from flatfed.specs.cell import CellSpec
from flatfed.specs.figure import FigureSpec


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
    ``relative`` says how a row is taken against its ``base`` row (an id, or ids by row). ``decentralised_metric``
    is the metric of decentralised rows where it is another.
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
    """A table: ``settings`` is its ``file``, validated.

    ``reference`` is the name of the printed numbers, or None. ``trained_on``: (column, row) -> the column's splits, or
    those that the decentralised row has in their place.
    """

    id: str
    file: str
    entries: Mapping[str, Row]
    columns: dict[str, Column]
    trained_on: Mapping[tuple[str, str], tuple[str, ...]]
    reference: str | None
    settings: dict[str, Any]


#: A table that is asked for and the ids of its columns, None for all.
AskedTable = tuple[str, list[str] | None]


class Asked(NamedTuple):
    """What is asked for: tables and figures."""

    tables: list[AskedTable]
    figures: list[str]


class Trained(NamedTuple):
    """What a table or figure shows of a row: in which protocol and on which split its algorithm is trained."""

    protocol: str
    split: str
    algorithm: str
    label: str


@dataclass(frozen=True)
class Entry:
    """What a panel shows of one protocol: its deals of ``splits`` or, where something is trained, ``rows``.

    ``rows``: row -> the splits that it is trained on, whose mean is shown; decentralised rows may have their own.
    ``label`` is that of a line, None for the row's own; ``preview``: whether the preview scale shows it.
    """

    protocol: str
    splits: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    label: str | None
    preview: bool

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The protocol with each split that something is trained on, or that is dealt."""
        trained = [split for splits in self.rows.values() for split in splits]
        return [(self.protocol, split) for split in trained or self.splits]


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its ``entries`` are lines, points, partitions or models, in their order.

    Of a sweep, ``parameter`` is what varies, ``rows`` has a line each, which all points mark in this order, and
    ``levels`` are rows that do not have the parameter. ``frame`` is the row by whose filters two models are moved.
    """

    title: str
    entries: tuple[Entry, ...]
    metric: str | None
    parameter: str | None
    rows: tuple[str, ...]
    levels: Entry | None
    frame: str | None

    def shown(self, scale: str) -> list[Entry]:
        """Return the entries that ``scale`` shows."""
        return [entry for entry in self.entries if scale == "paper" or entry.preview]

    def every(self, scale: str) -> list[Entry]:
        """Return the entries that ``scale`` shows, and the levels."""
        return [*self.shown(scale), *([self.levels] if self.levels else [])]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: ``settings`` is its ``file``, validated."""

    id: str
    file: str
    kind: str
    panels: tuple[Panel, ...]
    settings: dict[str, Any]

    @property
    def protocols(self) -> list[str]:
        """The protocols that it shows, in their order."""
        return list(dict.fromkeys(entry.protocol for panel in self.panels for entry in panel.every("paper")))

    def pairs(self, scale: str) -> list[tuple[str, str]]:
        """Return each protocol with each split that ``scale`` shows."""
        entries = [entry for panel in self.panels for entry in panel.every(scale)]
        return list(dict.fromkeys(pair for entry in entries for pair in entry.pairs))


@dataclass(frozen=True)
class Drawing:
    """A figure at a scale: ``spec`` is what ``flatfed figure`` takes, ``inputs`` the files it cannot do without.

    ``runs`` are those that it shows, by folder; ``analysed``: whether it reads Hessians or losses at their models.
    """

    spec: FigureSpec
    inputs: list[str]
    runs: dict[str, Run]
    analysed: bool
