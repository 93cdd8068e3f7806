"""Tables and figures: from the YAML that reads like the paper's to rows, columns and panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.engine import graphs
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import settings
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Column, Figure, Table
from flatfed.experiment.reference import Reference
from flatfed.tables.cells import UNITS
from flatfed.tables.metrics import METRICS

#: Keys of a figure that its kind needs, and those it takes beside them and beside the common ones.
KINDS = {
    "curves": (("rows", "metric", "smooth"), ("seeds",)),
    "partition": (("seed",), ()),
}
COMMON = ("kind", "title", "paper", "caption", "protocol", "splits")


def table(name: str, document: dict[str, Any], catalog: Catalog, references: dict[str, Reference]) -> Table:
    """Return the table declared in config/tables/<name>.yaml.

    :raises ConfigError: a row, protocol, split, metric, unit, target or reference does not exist, or two columns have
        the same id.
    """
    where = f"config/tables/{name}.yaml"
    for place, row in enumerate(document["rows"]):
        if row not in catalog.algorithms:
            raise ConfigError(unknown("algorithm", row, catalog.algorithms, f"{where}: rows[{place}]"))
    reference = None if document["reference"] == "none" else document["reference"]
    if reference is None and "reason" not in document:
        raise ConfigError(f"{where}: key 'reason' is missing; where reference is none, it says why")
    if reference is not None and reference not in references:
        raise ConfigError(unknown("reference", reference, ["none", *references], f"{where}: reference"))
    groups = [{key: document[key] for key in ("metric", "unit")} | group for group in document["columns"]]
    used = [protocol_of(group["protocol"], catalog, f"{where}: columns[{place}]") for place, group in enumerate(groups)]
    several_datasets = len({protocol.scales["paper"]["dataset"] for protocol in used}) > 1
    several_metrics = len({group["metric"] for group in groups}) > 1
    columns: dict[str, Column] = {}
    for place, (group, protocol) in enumerate(zip(groups, used, strict=True)):
        at = f"{where}: columns[{place}]"
        for column in _columns(group, protocol, catalog, at, several_datasets, several_metrics):
            if column.id in columns:
                raise ConfigError(f"{at}: column {column.id!r} is there twice")
            columns[column.id] = column
    return Table(name, tuple(document["rows"]), columns, reference, document)


def _columns(
    group: dict[str, Any],
    protocol: settings.Protocol,
    catalog: Catalog,
    where: str,
    several_datasets: bool,
    several_metrics: bool,
) -> list[Column]:
    """Return the columns of one group: split by split, and target by target where the metric has targets.

    An id is ``[<dataset>-]<split>[.<metric>[-<target>]]``: a dataset or metric that all columns of the table share is
    left out, unless there are targets.
    """
    metric, unit = group["metric"], group["unit"]
    if metric not in METRICS:
        raise ConfigError(unknown("metric", metric, METRICS, f"{where}: metric"))
    if unit not in UNITS:
        raise ConfigError(unknown("unit", unit, UNITS, f"{where}: unit"))
    targets = group.get("targets", [])
    if METRICS[metric].needs_target != bool(targets):
        wanted = "needs `targets:`, names of the protocol's" if not targets else "has no targets"
        raise ConfigError(f"{where}: metric {metric!r} {wanted}")
    dataset = protocol.scales["paper"]["dataset"]
    header = group.get("header", catalog.datasets[dataset]["label"])
    columns = []
    for split in group["splits"]:
        if split not in catalog.splits:
            raise ConfigError(unknown("split", split, catalog.splits, f"{where}: splits"))
        check_fit(protocol, split, catalog, where)
        stem = (f"{dataset}-" if several_datasets else "") + split
        label = catalog.splits[split]["label"]
        for name in targets or [None]:
            id_ = stem + (f".{metric}" if name or several_metrics else "") + (f"-{name}" if name else "")
            headers = (header, *label)
            if name:
                goals = {
                    scale: settings.target(values, split, name, f"{where}: targets ({scale} scale, {protocol.file})")
                    for scale, values in protocol.scales.items()
                }
                headers = (header, ", ".join(label), f"acc = {100 * goals['paper']:g}%")
            columns.append(Column(id_, protocol.id, split, metric, unit, name, headers, group.get("part")))
    return columns


def figure(name: str, document: dict[str, Any], catalog: Catalog) -> Figure:
    """Return the figure declared in config/figures/<name>.yaml; ConfigError for what does not exist."""
    where = f"config/figures/{name}.yaml"
    kind = document["kind"]
    needed, optional = KINDS[kind]
    for key in needed:
        if key not in document:
            raise ConfigError(f"{where}: key {key!r} is missing; kind {kind} needs {', '.join(needed)}")
    for key in document:
        if key not in (*COMMON, *needed, *optional):
            raise ConfigError(unknown("key", key, (*COMMON, *needed, *optional), f"{where} (kind {kind})"))
    protocol = protocol_of(document["protocol"], catalog, where)
    for place, row in enumerate(document.get("rows", [])):
        if row not in catalog.algorithms:
            raise ConfigError(unknown("algorithm", row, catalog.algorithms, f"{where}: rows[{place}]"))
    for split in document["splits"]:
        if split not in catalog.splits:
            raise ConfigError(unknown("split", split, catalog.splits, f"{where}: splits"))
        check_fit(protocol, split, catalog, where)
    return Figure(name, kind, document)


def protocol_of(name: str, catalog: Catalog, where: str) -> settings.Protocol:
    """Return the protocol or labelled variant ``name``; ConfigError naming ``where`` if there is none."""
    if name not in catalog.protocols:
        raise ConfigError(unknown("protocol", name, catalog.protocols, f"{where}: protocol"))
    return catalog.protocols[name]


def check_fit(protocol: settings.Protocol, split: str, catalog: Catalog, where: str) -> None:
    """Refuse a split that the protocol's dataset cannot be dealt by, at either scale; ``where`` asked for it."""
    declared = catalog.splits[split]
    for scale in ("paper", "preview"):
        deal, _ = deal_of(protocol, split, scale, catalog)
        dataset = catalog.datasets[deal["dataset"]]
        place = f"config/splits.yaml: {split}"
        there = f"of dataset {deal['dataset']!r} ({protocol.id}, {scale} scale; asked for in {where})"
        if deal.get("classes_per_client", 0) > dataset["classes"]:
            wrong = f"{place}.classes_per_client: {declared['classes_per_client']}"
            raise ConfigError(f"{wrong} is not allowed; at most {dataset['classes']}, the classes {there}")
        if "topology" in declared:
            graphs.check(settings.topology_of(declared, protocol.scales[scale]), deal["clients"], f"{place}.topology")
        parts = deal["clients"] * deal.get("shards_per_client", 1)
        if parts > dataset["train"]:
            kind = "shards" if "shards_per_client" in deal else "clients"
            wrong = f"{place}.clients: {declared['clients']}"
            most = f"at most {dataset['train']}, the training images {there}"
            raise ConfigError(f"{wrong} is not allowed, they make {parts} {kind}; {most}")


def deal_of(
    protocol: settings.Protocol, split: str, scale: str, catalog: Catalog
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (partition spec without seed, client sampling) of ``split`` in ``protocol`` at ``scale``."""
    values = protocol.scales[scale]
    classes = catalog.datasets[values["dataset"]]["classes"]
    paper_classes = catalog.datasets[protocol.scales["paper"]["dataset"]]["classes"]
    return settings.of_split(catalog.splits[split], values, classes, paper_classes)


def references(root: Path) -> dict[str, Reference]:
    """Return the printed tables in ``root``/config/reference by name."""
    folder = root / "config" / "reference"
    return {path.stem: Reference(path, f"config/reference/{path.name}") for path in sorted(folder.glob("*.csv"))}
