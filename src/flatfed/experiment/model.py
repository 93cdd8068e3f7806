"""What the configuration resolves to: runs, cells, tables, figures. Plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from flatfed.files import digest_json
from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import TEST
from flatfed.papers.reference import Printed
from flatfed.runs.run import Run


@dataclass(frozen=True)
class Sources:
    """The sources of a cell's numbers for one row; the metric of the cell decides which one it reads.

    ``runs`` are in the order of the seeds; a mean over splits has several runs per seed, one after the other. ``timed``
    is the run whose timing.json is read, ``update`` the name and the parameters of an algorithm, ``given`` a number.
    """

    runs: tuple[Run, ...] = ()
    timed: Run | None = None
    update: tuple[str, dict[str, Any]] | None = None
    given: float | None = None

    @property
    def empty(self) -> bool:
        """Whether there is no source: such a cell is a combination that cannot exist."""
        return self == Sources()


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """The specification of one number of a table: a ``metric`` of :mod:`flatfed.papers.metrics` and its sources.

    ``unit`` is the printed one; ``target`` an accuracy of this scale, a fraction; ``window`` the number of evaluated
    rounds that are averaged at the end (1: the final round); ``rounds`` those of a finished run; ``accuracy`` the
    column of metrics.csv that targets are compared with. ``relative`` is the relation to the row ``base``, taken seed
    by seed.
    """

    table: str
    column: str
    row: str
    scale: str
    metric: str
    unit: str
    target: float | None = None
    window: int = 1
    rounds: int = 0
    seeds: tuple[int, ...] = ()
    sources: Sources = Sources()
    relative: str | None = None
    base: str | None = None
    base_sources: Sources = Sources()
    paper: Printed | None = None
    accuracy: str = TEST
    compare: str = "values"

    @property
    def runs(self) -> list[Run]:
        """The runs that the cell reads, the base row's too, each once."""
        return list({run.path: run for run in (*self.sources.runs, *self.base_sources.runs)}.values())

    @property
    def timed(self) -> list[Run]:
        """The runs whose timing.json the cell reads."""
        return [sources.timed for sources in (self.sources, self.base_sources) if sources.timed]

    @property
    def analysed(self) -> bool:
        """Whether the cell reads the Hessians at the models of its runs."""
        return METRICS[self.metric].source == "analysis"

    @property
    def inputs(self) -> list[str]:
        """The files that the cell reads, each once."""
        files = [run.timing for run in self.timed]
        files += [run.hessian for run in self.runs if self.analysed]
        files += [file for run in self.runs for file in (run.partition, *run.files)]
        return list(dict.fromkeys(files))


@dataclass(frozen=True)
class DatasetSpec:
    """A data set whose images are counted when a table is made (:mod:`flatfed.tables.trained_on`).

    ``manifest`` is its dataset.json, None if none is read; ``images`` is the declared number of images, ``of`` that of
    the published set; ``shape`` is (channels, height, width).
    """

    manifest: str | None
    images: int
    of: int
    shape: Sequence[int]


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


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The layout of a table at a scale.

    ``title`` is in the paper's words, ``paper`` the place where it is printed; ``printed``: whether the paper's numbers
    are shown next to ours; ``setting``: data, clients, model and rounds of this scale, with ``{name}`` for each of the
    ``datasets``; ``metric`` is the quantity in words, to which the ``unit`` is added. ``paper_targets``: column id ->
    printed target as a fraction. ``notes`` are the lines under the table; ``flags`` the errata that the reference's
    notes cite as flag:B1.
    """

    table: str
    scale: str
    title: str
    metric: str
    unit: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    paper: str = ""
    printed: bool = True
    setting: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    row_header: str = "Algorithm"
    paper_targets: Mapping[str, float | None] = field(default_factory=dict)
    notes: Sequence[str] = ()
    flags: Mapping[str, str] = field(default_factory=dict)


#: A table that is asked for and the ids of its columns, None for all.
AskedTable = tuple[str, list[str] | None]


class Asked(NamedTuple):
    """What is asked for: tables and figures."""

    tables: list[AskedTable]
    figures: list[str]


class TrainedRow(NamedTuple):
    """What a table or figure shows of a row: in which protocol and on which split its algorithm is trained."""

    protocol: str
    split: str
    algorithm: str
    label: str


@dataclass(frozen=True)
class PanelEntry:
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
    ``levels`` are rows that do not have the parameter.
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

    def every(self, scale: str) -> list[PanelEntry]:
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


def digest(*contents: Any) -> str:
    """Return a digest of specifications: Snakemake reruns a job when the digest of its content changes.

    A run counts with its folder, its partition and the values that decide its numbers.
    """
    return digest_json(_plain(contents))[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Run):
        return [value.path, value.partition, value.mark]
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
