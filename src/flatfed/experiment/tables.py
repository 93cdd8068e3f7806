"""YAML file of a table -> rows and columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from flatfed import algorithms as registry
from flatfed.errors import ConfigError
from flatfed.experiment import compatibility, defaults, lookup, protocols
from flatfed.experiment.catalog import Catalog, Declared
from flatfed.experiment.descriptive_tables import dataset_columns, search_columns
from flatfed.experiment.model import Column, Row, Table
from flatfed.experiment.protocols import ResolvedProtocol
from flatfed.papers.metrics import METRICS, SETS, unit_of
from flatfed.papers.metrics.facts import FACTS
from flatfed.papers.reference import FLAG, Reference
from flatfed.papers.units import UNITS, units_of


def table(name: str, declared: Declared, catalog: Catalog, references: dict[str, Reference]) -> Table:
    """Return the table ``name``.

    :raises ConfigError: an id does not exist, two rows or columns have one id or label, or a row cannot train on a
        column's split.
    """
    document, where = declared.content, declared.file
    kind = document["kind"]
    rows = {}
    for index, entry in enumerate(document["rows"]):
        row = _row(entry, kind, catalog, f"{where}: rows[{index}]")
        if row.id in rows:
            raise ConfigError(f"{where}: rows: {row.id!r} is given twice")
        rows[row.id] = row
    reference = None if document["reference"] == "none" else document["reference"]
    lookup.check("reference", document["reference"], ["none", *references], f"{where}: reference")
    for algorithm, line in references[reference].algorithms.items() if reference else ():
        lookup.check_algorithm(algorithm, catalog.algorithms, f"{line} (of {where})")
    for flag in document.get("not_judged", ()):
        lines = references[reference].lines if reference else ()
        flagged = {id_ for line in lines for id_ in FLAG.findall(line.notes)}
        lookup.check("erratum", flag, flagged, f"{where}: not_judged")
    columns: dict[str, Column] = {}
    for index, group in enumerate(document["columns"]):
        at = f"{where}: columns[{index}]"
        for column in _BUILDERS[kind](document, group, catalog, at):
            if column.id in columns:
                raise ConfigError(f"{at}: column {column.id!r} is given twice")
            columns[column.id] = column
    _check_labels({row.id: (row.label,) for row in rows.values()}, "label", f"{where}: rows")
    if kind != "search":  # its headers span the values of a grid
        _check_labels({c.id: (c.part or "", *c.headers) for c in columns.values()}, "header", f"{where}: columns")
    _check_bases(columns.values(), rows, where)
    trained_on = _trained_on(columns.values(), rows.values(), catalog, where)
    return Table(name, where, rows, columns, trained_on, reference, document)


def _row(entry: Any, kind: str, catalog: Catalog, where: str) -> Row:
    if isinstance(entry, str):
        entry = {"row": entry}
    id_ = entry["row"]
    if kind == "results":
        lookup.check_algorithm(id_, catalog.algorithms, where)
        label = entry.get("label", catalog.algorithms[id_].label)
        return Row(id_, label, id_, entry.get("reference", {}), entry)
    if kind == "datasets":
        compatibility.protocol_of(entry["protocol"], catalog, where)
    else:
        lookup.check("metric", entry["metric"], FACTS["number"], where)
    return Row(id_, entry.get("label", id_), None, entry.get("reference", {}), entry)


def _results(document: dict[str, Any], group: dict[str, Any], catalog: Catalog, where: str) -> list[Column]:
    """Return the columns of one group, by split, metric and target.

    Ids are ``[<dataset>-]<split>[.<metric>[_<relative>][-<target>]]`` or begin with the group's id.
    """
    protocol = compatibility.protocol_of(group["protocol"], catalog, where)
    splits = group.get("splits", [])
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: splits")
        compatibility.check(protocol.id, split, catalog, where)
    metrics = defaults.metrics(group, document)
    for entry in metrics:
        _check_metric(entry, protocol, splits, where)
    all_metrics = [entry for columns in document["columns"] for entry in defaults.metrics(columns, document)]
    several_metrics = len({(entry.get("metric"), entry.get("relative")) for entry in all_metrics}) > 1
    several_datasets = len({_dataset(columns, catalog) for columns in document["columns"]} - {None}) > 1
    dataset = protocol.paper.dataset
    header = group.get("header", catalog.datasets[dataset].label)

    def column(splits: tuple[str, ...], entry: dict[str, Any], target: str | None) -> Column:
        metric, fixed = entry["metric"], METRICS[entry["metric"]].relative
        relative = entry.get("relative", fixed)
        stem = group.get("id") or f"{dataset}-" * several_datasets + (splits[0] if splits else metric)
        if (several_metrics or target) and splits:
            stem += f".{metric}" + (f"_{relative}" if relative and not fixed else "")
            stem += f"-{target}" if target else ""
        label = catalog.splits[splits[0]].headers if splits and not group.get("mean") else []
        under = entry.get("label", METRICS[metric].words if several_metrics else "")
        if target:
            goal = protocols.target(protocol.paper, splits[0], target, protocol.file)
            under = ", ".join(filter(None, (under, f"acc = {100 * goal:g}%")))
        if several_metrics:
            headers = (", ".join([header, *label]), under)
        else:
            headers = (header, *([", ".join(label)] if under and label else label), *([under] if under else []))
        return Column(
            stem, protocol.id, splits, metric, entry["unit"], target, headers, group.get("part"), relative,
            entry.get("base"), entry.get("decentralised"), group.get("reference", {}), group,
        )  # fmt: skip

    parts = [tuple(splits)] if group.get("mean") else [(split,) for split in splits] or [()]
    return [column(part, entry, goal) for part in parts for entry in metrics for goal in entry.get("targets", [None])]


def _dataset(group: dict[str, Any], catalog: Catalog) -> str | None:
    protocol = catalog.protocols.get(group.get("protocol", ""))
    return protocol.paper.dataset if protocol else None


def _check_metric(entry: dict[str, Any], protocol: ResolvedProtocol, splits: Iterable[str], where: str) -> None:
    metric, targets, unit = entry.get("metric"), entry.get("targets", []), entry.get("unit", "")
    lookup.check("metric", metric, METRICS, f"{where}: metric")
    if METRICS[metric].source != "declared" and not splits:
        raise ConfigError(f"{where}: key 'splits' is missing; metric {metric!r} needs runs on splits")
    if METRICS[metric].needs_target != bool(targets):
        problem = "needs `targets:`, names of the protocol's" if not targets else "has no targets"
        raise ConfigError(f"{where}: metric {metric!r} {problem}")
    for name, split in itertools.product(targets, splits):
        for scale, settings in protocol.scales.items():
            protocols.target(settings, split, name, f"{where}: targets ({scale} scale, {protocol.file})")
    relative = entry.get("relative", METRICS[metric].relative)
    allowed = ", ".join(units_of(unit_of(metric, relative)))
    if not unit:
        raise ConfigError(f"{where}: key 'unit' is missing; {metric} has: {allowed}")
    lookup.check("unit", unit, UNITS, f"{where}: unit")
    if UNITS[unit].stored != unit_of(metric, relative):
        quantity = f"{metric} taken as a {relative}" if relative else metric
        raise ConfigError(f"{where}: unit: {unit!r} is not one of {quantity}; allowed: {allowed}")
    if relative and "base" not in entry:
        raise ConfigError(f"{where}: key 'base' is missing; {metric} as a {relative} is computed against a base row")
    names = [metric]
    if "decentralised" in entry:  # the metric of rows without a server, with the same printed name
        printed = METRICS[metric].printed_as
        peers = {name for name, peer in METRICS.items() if (peer.printed_as, peer.source) == (printed, "runs")}
        lookup.check("metric", entry["decentralised"], peers - {metric}, f"{where}: metrics.decentralised ({printed})")
        names.append(entry["decentralised"])
    if splits:
        _check_evaluated(names, protocol, where)


def _check_evaluated(names: list[str], protocol: ResolvedProtocol, where: str) -> None:
    for (scale, settings), name in itertools.product(protocol.scales.items(), names):
        evaluated, location = settings.evaluation.sets, f"{protocol.id} ({scale} scale, {protocol.file})"
        if name == "node_test_accuracy" and not settings.client_test_images:
            raise ConfigError(f"{where}: metric {name!r} needs client_test_images in {location}")
        for column in METRICS[name].columns:
            if (needed := SETS.get(column, evaluated[0])) not in evaluated:
                expected = f"{needed!r} among evaluation.sets of {location}, which evaluates {', '.join(evaluated)}"
                raise ConfigError(f"{where}: metric {name!r} needs {expected}")


_BUILDERS = {"results": _results, "datasets": dataset_columns, "search": search_columns}


def _check_labels(labels: dict[str, tuple[str, ...]], key: str, where: str) -> None:
    ids: dict[tuple[str, ...], str] = {}
    for id_, label in labels.items():
        if (other := ids.setdefault(label, id_)) != id_:
            same = f"{', '.join(filter(None, label))!r}, as {other!r} has"
            raise ConfigError(f"{where}: {id_!r} has the {key} {same}; give one of them another `{key}`")


def _check_bases(columns: Iterable[Column], rows: dict[str, Row], where: str) -> None:
    for column in columns:
        bases = column.base.values() if isinstance(column.base, dict) else [column.base]
        for base in bases:
            if base is not None:
                lookup.check("row", base, rows, f"{where}: base of {column.id}")


def _trained_on(
    columns: Iterable[Column], rows: Iterable[Row], catalog: Catalog, where: str
) -> dict[tuple[str, str], tuple[str, ...]]:
    trained_on = {}
    for column, row in itertools.product((column for column in columns if column.splits), rows):
        pattern = column.settings.get("decentralised", "*")
        trained_on[column.id, row.id] = tuple(
            compatibility.training_split(column.protocol, split, row.algorithm, pattern, catalog, where)
            for split in column.splits
        )
    return trained_on


def metric_of(column: Column, row: Row) -> str:
    """Return the metric of ``row`` in a column."""
    if column.decentralised_metric and registry.load(row.algorithm.partition("~")[0]).decentralised:
        return column.decentralised_metric
    return column.metric or row.settings["metric"]
