"""YAML file of a figure -> panels and their entries."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from flatfed.errors import ConfigError
from flatfed.experiment import compatibility, lookup
from flatfed.experiment.catalog import Catalog, Declared
from flatfed.experiment.model import Figure, Panel, PanelEntry
from flatfed.papers.figure_kinds import KINDS, PROBES, Kind


class Parameter(NamedTuple):
    """A parameter of a sweep: its axis label, and the ``keys`` of a row that set it.

    ``compute``: its value from a run's training settings, hyper-parameters, clients and fraction of active clients;
    None: the value of its name.
    """

    axis: str
    keys: tuple[str, ...] = ()
    compute: Callable[[dict[str, Any]], float] | None = None


#: Name in panels and labels -> parameter.
PARAMETERS = {
    "active_clients": Parameter(
        "Clients active in a round (expected)", compute=lambda values: values["clients"] * values["fraction"]
    ),
    "clients": Parameter("Clients"),
    "local_epochs": Parameter("Local epochs $K$ of a round", ("local_epochs",)),
    "learning_rate_decay": Parameter("Learning rate's decay per round", ("learning_rate_decay",)),
    "rho": Parameter(r"Perturbation radius $\rho$", ("rho",)),
    "alpha": Parameter(r"Weight $\beta$ of the fresh gradient", ("alpha",)),
    "beta": Parameter(r"Penalised coefficient $\beta$", ("penalty",), lambda values: 1 / values["penalty"]),
    "rho_per_learning_rate": Parameter(
        r"$\rho / \eta_l$", ("rho", "learning_rate"), lambda values: values["rho"] / values["learning_rate"]
    ),
}

#: Keys that a panel inherits from its figure, and a series, point or partition from its panel.
OF_FIGURE = ("protocol", "rows", "metric", "decentralised")
OF_PANEL = ("protocol", "split", "splits", "rows", "metric", "decentralised")


def figure(name: str, declared: Declared, catalog: Catalog) -> Figure:
    """Return the figure ``name``; ConfigError for unknown ids."""
    document, where = declared.content, declared.file
    kind_id, kind = document["kind"], KINDS[document["kind"]]
    shared = {key: document[key] for key in OF_FIGURE if key in document}
    # A list of splits gives one panel per split.
    panels = [{**shared, **panel} for panel in document.get("panels") or [{"split": id_} for id_ in document["splits"]]]
    for metric in [entry["metric"] for entry in (document, *panels) if "metric" in entry]:
        lookup.check("metric", metric, kind.quantities, f"{where}: metric (kind {kind_id})")
    for index, row in enumerate(document.get("rows", [])):
        lookup.check_algorithm(row, catalog.algorithms, f"{where}: rows[{index}]")
    at = f"{where}: panels[{{}}]" if "panels" in document else where
    resolved = [_panel(panel, kind_id, catalog, at.format(index)) for index, panel in enumerate(panels)]
    return Figure(name, where, kind_id, tuple(resolved), document)


def _panel(panel: dict[str, Any], kind_id: str, catalog: Catalog, where: str) -> Panel:
    kind = KINDS[kind_id]
    lookup.check("parameter", panel.get("parameter", "rho"), PARAMETERS, f"{where}: parameter")
    shared = {key: panel[key] for key in OF_PANEL if key in panel}
    parts = panel.get("series") or panel.get("points") or panel.get("partitions") or [{}]
    return Panel(
        entries=tuple(_entry({**shared, **part}, kind, catalog, where) for part in parts),
        levels=_entry({**shared, "rows": panel["levels"]}, kind, catalog, where) if "levels" in panel else None,
        title=panel["title"] if "title" in panel else ", ".join(catalog.splits[panel["split"]].headers),
        metric=panel.get("metric"),
        parameter=panel.get("parameter"),
        rows=tuple(panel.get("rows", ())),
    )


def _entry(entry: dict[str, Any], kind: Kind, catalog: Catalog, where: str) -> PanelEntry:
    """Return a series, point or partition; ``entry`` includes inherited keys."""
    rows = [entry["row"]] if "row" in entry else entry.get("rows", [])
    rows = [f"{row}~{entry['variant']}" if "variant" in entry else row for row in rows]
    trained = kind.reads != "partitions"
    if trained and not rows:
        raise ConfigError(f"{where}: key 'rows' is missing; ids of config/algorithms.yaml")
    if "protocol" not in entry:
        raise ConfigError(f"{where}: key 'protocol' is missing; an id of config/protocols")
    protocol = compatibility.protocol_of(entry["protocol"], catalog, where)
    _check_label(entry.get("label", ""), f"{where}: label")
    if entry.get("metric") in PROBES and not protocol.paper.probe:
        raise ConfigError(f"{where}: metric {entry['metric']!r} needs a probe, which {protocol.id} does not have")
    splits = (not kind.one_seed and entry.get("splits")) or ([entry["split"]] if "split" in entry else [])
    if not splits:
        raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
    trained_on: dict[str, tuple[str, ...]] = {}
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: split")
        compatibility.check(protocol.id, split, catalog, where)
        for row in rows if trained else ():
            lookup.check_algorithm(row, catalog.algorithms, f"{where}: rows")
            on = compatibility.training_split(protocol.id, split, row, entry.get("decentralised", "*"), catalog, where)
            trained_on[row] = (*trained_on.get(row, ()), on)
    return PanelEntry(protocol.id, tuple(splits), trained_on, entry.get("label"), entry.get("preview", True))


def _check_label(label: str, where: str) -> None:
    try:
        parts = list(string.Formatter().parse(label))
    except ValueError as error:
        raise ConfigError(f"{where}: {label!r}: {error}; write a parameter in braces, as in {{rho:g}}") from None
    for _, name, form, conversion in parts:
        if name is not None:
            lookup.check("parameter", name, PARAMETERS, where)
        if conversion or (form and not re.fullmatch(r"(\.[0-9])?[efg%]", form)):
            raise ConfigError(f"{where}: {label!r}: format {form or conversion!r} is not allowed; use one such as :g")
