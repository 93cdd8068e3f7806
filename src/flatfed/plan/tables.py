"""The document of a table -> rows and columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatfed import algorithms as registry
from flatfed.config.table import ColumnGroup, RowEntry, TableDocument
from flatfed.errors import ConfigError
from flatfed.plan import checks, lookup, protocols
from flatfed.plan.catalog import Catalog
from flatfed.plan.lookup import Declared
from flatfed.plan.metrics import FACTS, METRICS
from flatfed.plan.reference import Reference
from flatfed.runs.paths import without_label


@dataclass(frozen=True)
class Row:
    """A row of a table: an algorithm or, in a descriptive table, a subject."""

    id: str
    label: str
    algorithm: str | None
    entry: RowEntry


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: a metric of one protocol and split, or of the mean over several splits.

    ``headers``: the header levels, outermost first; ``preview``: those of a preview. ``group``: its entry in the
    document. ``target``: the name of the target accuracy, ``printed_target``: its value at paper scale, a fraction.
    ``relative``: the comparison with the
    ``base`` row (an id, or row -> id). ``peer_metric``: the metric of decentralised rows, if different. ``reference``:
    its keys of the printed table. ``place``: in a table of searched values, the place in the grid, 0 for the chosen
    value.
    """

    id: str
    headers: tuple[str, ...]
    preview: tuple[str, ...] = ()
    group: ColumnGroup
    metric: str = ""
    unit: str
    protocol: str | None = None
    splits: tuple[str, ...] = ()
    target: str | None = None
    printed_target: float | None = None
    relative: str | None = None
    base: str | Mapping[str, str] | None = None
    peer_metric: str | None = None
    reference: Mapping[str, Any] = field(default_factory=dict)
    place: int = 0

    @property
    def part(self) -> str | None:
        """The block of the table."""
        return self.group.part

    @property
    def split(self) -> str | None:
        """The first split, or None."""
        return self.splits[0] if self.splits else None

    def in_preview(self) -> Column:
        """Return the column with headings that are true in a preview, whose data and clients are not the paper's."""
        group = self.group.model_copy(update={"part": None})
        return replace(self, headers=self.preview or self.headers, group=group)

    def base_of(self, row: str) -> str | None:
        """Return the id of the base row of ``row``, or None."""
        return self.base.get(row) if isinstance(self.base, Mapping) else self.base

    def metric_of(self, row: Row) -> str:
        """Return the metric of ``row``."""
        if self.peer_metric and registry.load(without_label(row.algorithm)).decentralised:
            return self.peer_metric
        return self.metric or row.entry.metric


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, declared in ``file``.

    ``printed``: whether it shows printed numbers. ``trained_on``: (column, row) -> training splits, which can differ
    for decentralised rows.
    """

    id: str
    file: str
    document: TableDocument
    rows: dict[str, Row]
    columns: dict[str, Column]
    trained_on: Mapping[tuple[str, str], tuple[str, ...]]
    printed: bool

    @property
    def protocols(self) -> list[str]:
        """The protocols of the columns and rows."""
        names = [column.protocol for column in self.columns.values()]
        return list(dict.fromkeys(filter(None, names + [row.entry.protocol for row in self.rows.values()])))

    def of_columns(self, columns: Iterable[str] | None) -> Table:
        """Return the table with some ``columns``; None: all."""
        return replace(self, columns={name: self.columns[name] for name in columns}) if columns else self

    def in_preview(self) -> Table:
        """Return the table of a preview: without printed numbers and notes, and with headings of the preview."""
        columns = {name: column.in_preview() for name, column in self.columns.items()}
        notes = () if self.document.paper else self.document.notes
        return replace(self, columns=columns, printed=False, document=self.document.model_copy(update={"notes": notes}))


def table(name: str, declared: Declared, catalog: Catalog, references: Mapping[str, Reference]) -> Table:
    """Return the table ``name``.

    :raises ConfigError: an id does not exist, two rows or columns have one id or label, or a row cannot train on a
        column's split.
    """
    document, where = declared.content, declared.file
    rows: dict[str, Row] = {}
    for index, entry in enumerate(document.rows):
        row = _row(entry, document.kind, catalog, f"{where}: rows[{index}]")
        if row.id in rows:
            raise ConfigError(f"{where}: rows: {row.id!r} is given twice")
        rows[row.id] = row
    lookup.check("reference", document.reference, ["none", *references], f"{where}: reference")
    reference = references.get(document.reference)
    for algorithm, line in reference.algorithms.items() if reference else ():
        lookup.check_algorithm(algorithm, catalog.algorithms, f"{line} (of {where})")
    for flag in document.not_judged:
        lookup.check("erratum", flag, reference.flags if reference else (), f"{where}: not_judged")
    columns: dict[str, Column] = {}
    for index, group in enumerate(document.columns):
        at = f"{where}: columns[{index}]"
        for column in _COLUMNS[document.kind](document, group, catalog, at):
            if column.id in columns:
                raise ConfigError(f"{at}: column {column.id!r} is given twice")
            columns[column.id] = column
    _check_labels({row.id: (row.label,) for row in rows.values()}, "label", f"{where}: rows")
    if document.kind != "search":  # its headers span the values of a grid
        _check_labels({c.id: (c.part or "", *c.headers) for c in columns.values()}, "header", f"{where}: columns")
    trained_on = {}
    for column in columns.values():
        for base in column.base.values() if isinstance(column.base, dict) else filter(None, [column.base]):
            lookup.check("row", base, rows, f"{where}: base of {column.id}")
        for row in rows.values() if column.splits else ():
            pair, pattern = (column.protocol, row.algorithm), column.group.decentralised
            trained_on[column.id, row.id] = tuple(
                catalog.training_split(*pair, split, pattern, where) for split in column.splits
            )
    parts = {"document": document, "rows": rows, "columns": columns, "trained_on": trained_on}
    return Table(id=name, file=where, printed=reference is not None, **parts)


def _row(entry: str | RowEntry, kind: str, catalog: Catalog, where: str) -> Row:
    entry = RowEntry.model_construct(row=entry) if isinstance(entry, str) else entry
    if kind == "results":
        lookup.check_algorithm(entry.row, catalog.algorithms, where)
        return Row(entry.row, entry.label or catalog.algorithms[entry.row].label, entry.row, entry)
    if kind == "datasets":
        lookup.check("protocol", entry.protocol, catalog.protocols, f"{where}: protocol")
    else:
        lookup.check("metric", entry.metric, FACTS["number"], where)
    return Row(entry.row, entry.label or entry.row, None, entry)


def _results(document: TableDocument, group: ColumnGroup, catalog: Catalog, where: str) -> Iterator[Column]:
    """Yield the columns of one group, by split, metric and target.

    Ids are ``[<dataset>-]<split>[.<metric>[_<relative>][-<target>]]`` or begin with the group's id.
    """
    protocol = lookup.entry("protocol", group.protocol, catalog.protocols, f"{where}: protocol")
    splits = tuple(group.splits or ())
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: splits")
        catalog.check_fit(protocol.id, split, where)
    metrics = document.metrics_of(group)
    for entry in metrics:
        checks.check_metric(entry, protocol, splits, where)
    everywhere = [entry for columns in document.columns for entry in document.metrics_of(columns)]
    several_metrics = len({(entry.metric, entry.relative) for entry in everywhere}) > 1
    known = (columns.protocol for columns in document.columns if columns.protocol in catalog.protocols)
    several_datasets = len({catalog.settings("paper", name).dataset for name in known}) > 1
    dataset = protocol.at_paper_scale.dataset
    header = group.header or catalog.datasets[dataset].label
    parts = [splits] if group.mean else [(split,) for split in splits] or [()]
    for part, entry in itertools.product(parts, metrics):
        fixed = METRICS[entry.metric].relative
        relative = entry.relative or fixed
        stem = group.id or f"{dataset}-" * several_datasets + (part[0] if part else entry.metric)
        if (several_metrics or entry.targets) and part:
            stem += f".{entry.metric}" + (f"_{relative}" if relative and not fixed else "")
        label = catalog.splits[part[0]].headers if part and not group.mean else []
        name = [f"mean of {len(part)} splits"] if group.mean else part
        set_up = protocol.id if part else group.header or protocol.id
        under = entry.label or (METRICS[entry.metric].words if several_metrics else "")
        for target in entry.targets or [None]:
            scales = protocol.scales.items() if target else ()
            goals = {scale: protocols.target(of_scale, part[0], target, protocol.file) for scale, of_scale in scales}
            yield Column(
                id=f"{stem}-{target}" if target and part else stem,
                headers=_headers(header, label, under, goals.get("paper"), several_metrics),
                preview=_headers(set_up, name, under, goals.get("preview"), several_metrics),
                group=group,
                protocol=protocol.id,
                splits=part,
                metric=entry.metric,
                unit=entry.unit,
                target=target,
                printed_target=goals.get("paper"),
                relative=relative,
                base=entry.base,
                peer_metric=entry.decentralised,
                reference=group.reference,
            )


def _headers(header: str, label: Sequence[str], under: str, target: float | None, joined: bool) -> tuple[str, ...]:
    """Return the header levels of a column of a split; ``joined``: in one level above the metric ``under`` them."""
    under = ", ".join(filter(None, (under, target and f"acc = {100 * target:g}%")))
    if joined:
        return (", ".join([header, *label]), under)
    return (header, *([", ".join(label)] if under and label else label), *([under] if under else []))


def _facts(document: TableDocument, group: ColumnGroup, catalog: Catalog, where: str) -> Iterator[Column]:
    """Yield the column of a table of datasets: one fact per dataset."""
    lookup.check("fact", group.fact, FACTS["count"], f"{where}: fact")
    if group.split:
        lookup.check("split", group.split, catalog.splits, f"{where}: split")
    headers = tuple(filter(None, (group.header, group.label))) or (METRICS[group.fact].words,)
    about = {"metric": group.fact, "unit": "count", "reference": group.reference}
    yield Column(id=group.id or group.fact, headers=headers, group=group, **about)


def _searched(document: TableDocument, group: ColumnGroup, catalog: Catalog, where: str) -> Iterator[Column]:
    """Yield the columns of searched hyper-parameters: the grid and the chosen value."""
    protocol = lookup.entry("protocol", group.protocol, catalog.protocols, f"{where}: protocol")
    if "variant" not in group.reference:
        raise ConfigError(f"{where}: reference: key 'variant' is missing; kind search needs it")
    lookup.check("algorithm", group.algorithm, protocol.at_paper_scale.searched, f"{where}: algorithm")
    grids = protocol.at_paper_scale.searched[group.algorithm].values()
    for place in [*range(1, max(map(len, grids)) + 1), 0]:
        name, variant = (f"grid{place}", f"grid;{place}") if place else ("best", "best")
        headers = (group.header or group.id, "Grid search" if place else "Best")
        reference = {"variant": f"{group.reference['variant']};{variant}"}
        about = {"protocol": protocol.id, "unit": "number", "reference": reference, "place": place}
        yield Column(id=f"{group.id}.{name}", headers=headers, group=group, **about)


_COLUMNS = {"results": _results, "datasets": _facts, "search": _searched}


def _check_labels(labels: dict[str, tuple[str, ...]], key: str, where: str) -> None:
    ids: dict[tuple[str, ...], str] = {}
    for id_, label in labels.items():
        if (other := ids.setdefault(label, id_)) != id_:
            same = f"{', '.join(filter(None, label))!r}, as {other!r} has"
            raise ConfigError(f"{where}: {id_!r} has the {key} {same}; give one of them another `{key}`")
