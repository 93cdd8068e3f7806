"""The types of the resolved configuration: cells, tables, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from flatfed.files import digest_json
from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import DEFAULT_ACCURACY
from flatfed.papers.reference import Printed
from flatfed.runs.run import Run


@dataclass(frozen=True)
class Sources:
    """The sources of a cell's numbers for one row. The cell's metric reads one of them.

    ``runs``: by seed, then by split. ``timed``: the run with the timing.json. ``update``: name and parameters of an
    algorithm. ``given``: a number.
    """

    runs: tuple[Run, ...] = ()
    timed: Run | None = None
    update: tuple[str, dict[str, Any]] | None = None
    given: float | None = None

    @property
    def empty(self) -> bool:
        """Whether the row has no number in the column."""
        return self == Sources()


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """The specification of a cell: a ``metric`` of :mod:`flatfed.papers.metrics` and its sources.

    ``unit``: the printed unit. ``target``: the target accuracy, a fraction. ``window``: the number of final evaluated
    rounds that are averaged. ``accuracy``: the column of metrics.csv whose centred mean of ``smoothing`` evaluated
    rounds reaches targets. ``relative``: the comparison with the row ``base``. ``tolerance``: the largest differences
    from the paper that agree and that are near (:func:`flatfed.tables.compare.agreement`), None for the default.
    ``judged``: whether the table compares the cell with the paper.
    """

    table: str
    column: str
    row: str
    scale: str
    metric: str
    unit: str
    target: float | None = None
    window: int = 1
    smoothing: int = 1
    rounds: int = 0
    seeds: tuple[int, ...] = ()
    sources: Sources = Sources()
    relative: str | None = None
    base: str | None = None
    base_sources: Sources = Sources()
    paper: Printed | None = None
    accuracy: str = DEFAULT_ACCURACY
    compare: str = "values"
    tolerance: tuple[float, float] | None = None
    judged: bool = True

    @property
    def runs(self) -> list[Run]:
        """The runs of the cell and of its base row."""
        return list({run.path: run for run in (*self.sources.runs, *self.base_sources.runs)}.values())

    @property
    def timed(self) -> list[Run]:
        """The runs with a timing.json that the cell reads."""
        return [sources.timed for sources in (self.sources, self.base_sources) if sources.timed]

    @property
    def analysed(self) -> bool:
        """Whether the cell reads the Hessians of its runs."""
        return METRICS[self.metric].source == "analysis"

    @property
    def inputs(self) -> list[str]:
        """The files that the cell reads."""
        files = [run.timing for run in self.timed]
        files += [run.hessian for run in self.runs if self.analysed]
        files += [file for run in self.runs for file in (run.partition, *run.files)]
        return list(dict.fromkeys(files))


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset whose images :mod:`flatfed.tables.image_counts` counts.

    ``manifest``: its dataset.json, or None. ``images``: their number on this machine; ``of``: in the published dataset.
    ``shape``: (channels, height, width).
    """

    manifest: str | None
    images: int
    of: int
    shape: Sequence[int]


@dataclass(frozen=True)
class Row:
    """A row of a table: an algorithm or, in a descriptive table, a subject.

    ``settings``: its YAML entry. ``reference``: its own keys of the reference file.
    """

    id: str
    label: str
    algorithm: str | None
    reference: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table: a metric of one protocol and split, or of the mean over several splits.

    ``headers``: the header levels, outermost first. ``part``: its block of the table. ``target``: the name of the
    target accuracy. ``relative``: the comparison with the ``base`` row (an id, or row -> id).
    ``decentralised_metric``: the metric of decentralised rows, if different.
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
        """The first split, or None."""
        return self.splits[0] if self.splits else None

    def base_of(self, row: str) -> str | None:
        """Return the id of the base row of ``row``, or None."""
        return self.base.get(row) if isinstance(self.base, Mapping) else self.base


@dataclass(frozen=True)
class Table:
    """A table: ``settings`` is the content of its ``file``.

    ``reference``: the name of the printed numbers, or None. ``trained_on``: (column, row) -> training splits, which can
    differ for decentralised rows.
    """

    id: str
    file: str
    entries: Mapping[str, Row]
    columns: dict[str, Column]
    trained_on: Mapping[tuple[str, str], tuple[str, ...]]
    reference: str | None
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The layout of a table at a scale.

    ``prefix``: the text before ``title``. ``paper``: the number of the printed table. ``printed``: whether the table
    shows paper numbers. ``setting``: the set-up, with ``{name}`` for each of the ``datasets``. ``metric``: the
    quantity, without ``unit``. ``paper_targets``: column id -> printed target as a fraction. ``flags``: the errata that
    the reference file cites.
    """

    table: str
    scale: str
    title: str
    metric: str
    unit: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    prefix: str = ""
    paper: str = ""
    printed: bool = True
    setting: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    row_header: str = "Algorithm"
    paper_targets: Mapping[str, float | None] = field(default_factory=dict)
    notes: Sequence[str] = ()
    flags: Mapping[str, str] = field(default_factory=dict)


#: A requested table and the ids of its columns, None for all.
RequestedTable = tuple[str, list[str] | None]


class Requested(NamedTuple):
    """The requested tables and figures."""

    tables: list[RequestedTable]
    figures: list[str]


class TrainedRow(NamedTuple):
    """A training that a table or figure shows, without its seed."""

    protocol: str
    split: str
    algorithm: str
    label: str


@dataclass(frozen=True)
class PanelEntry:
    """A part of a panel with one protocol: partitions of ``splits`` or trained ``rows``.

    ``rows``: row -> training splits, which are averaged. ``label``: of a line, None for the row's. ``preview``: whether
    the preview scale shows it.
    """

    protocol: str
    splits: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    label: str | None
    preview: bool

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(protocol, split) of all trainings or, without rows, of all partitions."""
        trained = [split for splits in self.rows.values() for split in splits]
        return [(self.protocol, split) for split in trained or self.splits]


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its ``entries`` are lines, points, partitions or models.

    In a sweep, ``parameter`` varies, ``rows`` has one row per line, and ``levels`` has rows without the parameter.
    """

    title: str
    entries: tuple[PanelEntry, ...]
    metric: str | None
    parameter: str | None
    rows: tuple[str, ...]
    levels: PanelEntry | None

    def shown(self, scale: str) -> list[PanelEntry]:
        """Return the entries that ``scale`` shows."""
        return [entry for entry in self.entries if scale == "paper" or entry.preview]

    def all_entries(self, scale: str) -> list[PanelEntry]:
        """Return the entries that ``scale`` shows, and the levels."""
        return [*self.shown(scale), *([self.levels] if self.levels else [])]


@dataclass(frozen=True)
class Figure:
    """A figure: ``settings`` is the content of its ``file``."""

    id: str
    file: str
    kind: str
    panels: tuple[Panel, ...]
    settings: dict[str, Any]

    @property
    def protocols(self) -> list[str]:
        """The protocols of all panels, in order."""
        return list(dict.fromkeys(entry.protocol for panel in self.panels for entry in panel.all_entries("paper")))

    def pairs(self, scale: str) -> list[tuple[str, str]]:
        """Return all (protocol, split)s that ``scale`` shows."""
        entries = [entry for panel in self.panels for entry in panel.all_entries(scale)]
        return list(dict.fromkeys(pair for entry in entries for pair in entry.pairs))


def digest(*contents: Any) -> str:
    """Return a digest of specifications, with the folder, partition and results-determining values of runs."""
    return digest_json(_plain(contents))[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Run):
        return [value.path, value.partition, value.deciding_digest]
    if isinstance(value, BaseModel):
        return _plain(dict(value))
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
