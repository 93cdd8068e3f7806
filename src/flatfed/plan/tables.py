"""The document of a table -> rows and columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatfed import algorithms as registry
from flatfed.config.table import ColumnGroup, MetricEntry, RowEntry, TableDocument
from flatfed.errors import ConfigError
from flatfed.plan import checks, lookup, protocols
from flatfed.plan.catalog import Catalog
from flatfed.plan.lookup import Declared, Mistakes
from flatfed.plan.metrics import METRICS
from flatfed.plan.reference import Reference
from flatfed.runs.paths import without_label


@dataclass(frozen=True)
class Row:
    """A row of a table: the ``algorithm`` is its id. ``reference``: its keys of the printed table."""

    algorithm: str
    label: str
    reference: Mapping[str, Any]


class Column(MetricEntry):
    """A column of a table: a complete metric of one protocol and split, or of the mean over several splits.

    ``headers``: the header levels, outermost first; ``preview``: those of a preview. ``group``: its entry in the
    document. ``target``: the name of the target accuracy, ``printed_target``: its value at paper scale, a fraction.
    """

    id: str
    headers: tuple[str, ...]
    preview: tuple[str, ...]
    group: ColumnGroup
    splits: tuple[str, ...]
    target: str | None
    printed_target: float | None

    @property
    def protocol(self) -> str:
        """The id of the protocol."""
        return self.group.protocol

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
        return self.model_copy(update={"headers": self.preview, "group": group})

    def base_of(self, row: str) -> str | None:
        """Return the id of the base row of ``row``, or None."""
        return self.base.get(row) if isinstance(self.base, Mapping) else self.base

    def metric_of(self, row: Row) -> str:
        """Return the metric of ``row``."""
        peer = self.decentralised and registry.load(without_label(row.algorithm)).decentralised
        return self.decentralised if peer else self.metric


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
        """The protocols of the columns."""
        return list(dict.fromkeys(column.protocol for column in self.columns.values()))

    def of_columns(self, columns: Iterable[str] | None) -> Table:
        """Return the table with some ``columns``; None: all."""
        return replace(self, columns={name: self.columns[name] for name in columns}) if columns else self

    def in_preview(self) -> Table:
        """Return the table of a preview: without printed numbers and notes, and with headings of the preview."""
        columns = {name: column.in_preview() for name, column in self.columns.items()}
        notes = () if self.document.paper else self.document.notes
        changes = {"notes": notes, "row_header": f"{self.document.row_header} (preview)"}
        return replace(self, columns=columns, printed=False, document=self.document.model_copy(update=changes))


def table(name: str, declared: Declared, catalog: Catalog, references: Mapping[str, Reference]) -> Table:
    """Return the table ``name``.

    :raises ConfigError: ids do not exist, rows or columns have the same id or label, or a row cannot train on a
        column's split; a line for each.
    """
    document, where, mistakes = declared.content, declared.file, Mistakes()
    rows: dict[str, Row] = {}
    for index, entry in enumerate(document.rows):
        with mistakes.noted():
            row = _row(entry, catalog, f"{where}: rows[{index}]")
            if rows.setdefault(row.algorithm, row) is not row:
                raise ConfigError(f"{where}: rows: {row.algorithm!r} is given twice")
    mistakes.note(lookup.check, "reference", document.reference, ["none", *references], f"{where}: reference")
    reference = references.get(document.reference)
    with mistakes.noted():
        for algorithm, line in reference.algorithms.items() if reference else ():
            lookup.check_algorithm(algorithm, catalog.algorithms, f"{line} (of {where})")
        for flag in document.not_judged if reference or document.reference == "none" else ():
            lookup.check("erratum", flag, reference.flags if reference else (), f"{where}: not_judged")
    columns: dict[str, Column] = {}
    for index, group in enumerate(document.columns):
        at = f"{where}: columns[{index}]"
        with mistakes.noted():
            for column in _columns(document, group, catalog, at):
                if columns.setdefault(column.id, column) is not column:
                    remedy = "give each group of columns its own `id` (with one split per group)"
                    raise ConfigError(f"{at}: column {column.id!r} is given twice; {remedy}")
    mistakes.stop()
    _check_labels({id_: (row.label,) for id_, row in rows.items()}, "label", f"{where}: rows")
    _check_labels({c.id: (c.part or "", *c.headers) for c in columns.values()}, "header", f"{where}: columns")
    trained_on = {}
    for column in columns.values():
        for base in column.base.values() if isinstance(column.base, dict) else filter(None, [column.base]):
            lookup.check("row", base, rows, f"{where}: base of {column.id}")
        for row in rows if column.splits else ():
            pattern = column.group.decentralised
            with mistakes.noted():
                trained_on[column.id, row] = tuple(
                    checks.training_split(catalog, column.protocol, row, split, pattern, where)
                    for split in column.splits
                )
    mistakes.stop()
    _check_settings(rows, {column.protocol for column in columns.values()}, catalog, f"{where}: rows")
    parts = {"document": document, "rows": rows, "columns": columns, "trained_on": trained_on}
    return Table(id=name, file=where, printed=reference is not None, **parts)


def _row(entry: str | RowEntry, catalog: Catalog, where: str) -> Row:
    entry = RowEntry.model_construct(row=entry) if isinstance(entry, str) else entry
    lookup.check_algorithm(entry.row, catalog.algorithms, where)
    return Row(entry.row, entry.label or catalog.algorithms[entry.row].label, entry.reference)


def _columns(document: TableDocument, group: ColumnGroup, catalog: Catalog, where: str) -> Iterator[Column]:
    """Yield the columns of one group, by split, metric and target.

    Ids are ``[<dataset>-]<split>[.<metric>[_<relative>][-<target>]]`` or begin with the group's id.
    """
    protocol = lookup.entry("protocol", group.protocol, catalog.protocols, f"{where}: protocol")
    splits, metrics, mistakes = tuple(group.splits or ()), document.metrics_of(group), Mistakes()
    for split in splits:
        with mistakes.noted():
            lookup.check("split", split, catalog.splits, f"{where}: splits")
            checks.check_fit(catalog, protocol.id, split)
    for index, entry in enumerate(metrics):
        at = f"{where}: metrics[{index}]" if group.metrics or document.metrics else where
        mistakes.note(checks.check_metric, entry, protocol, splits, at)
    mistakes.stop()
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
            yield Column.model_construct(
                **{**dict(entry), "relative": relative},
                id=f"{stem}-{target}" if target and part else stem,
                headers=_headers(header, label, under, goals.get("paper"), several_metrics),
                preview=_headers(set_up, name, under, goals.get("preview"), several_metrics),
                group=group,
                splits=part,
                target=target,
                printed_target=goals.get("paper"),
            )


def _headers(header: str, label: Sequence[str], under: str, target: float | None, joined: bool) -> tuple[str, ...]:
    """Return the header levels of a column of a split; ``joined``: in one level above the metric ``under`` them."""
    under = ", ".join(filter(None, (under, target and f"acc = {100 * target:g}%")))
    if joined:
        return (", ".join([header, *label]), under)
    return (header, *([", ".join(label)] if under and label else label), *([under] if under else []))


def _check_settings(rows: Iterable[str], of_table: Iterable[str], catalog: Catalog, where: str) -> None:
    """Refuse two rows of one algorithm whose settings are the same in all protocols ``of_table``."""
    scales = [(scale, protocol) for protocol in sorted(of_table) for scale in catalog.protocols[protocol].scales]
    for first, second in itertools.combinations(rows, 2):
        if without_label(first) == without_label(second) and all(
            catalog.hyperparameters(*scale, first) == catalog.hyperparameters(*scale, second) for scale in scales
        ):
            raise ConfigError(f"{where}: {first!r} and {second!r} have the same settings; remove one of them")


def _check_labels(labels: dict[str, tuple[str, ...]], key: str, where: str) -> None:
    ids: dict[tuple[str, ...], str] = {}
    for id_, label in labels.items():
        if (other := ids.setdefault(label, id_)) != id_:
            same = f"{', '.join(filter(None, label))!r}, as {other!r} has"
            raise ConfigError(f"{where}: {id_!r} has the {key} {same}; give one of them another `{key}`")
