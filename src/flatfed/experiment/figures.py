"""Figures: from their YAML files to panels and their entries."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from flatfed.errors import ConfigError
from flatfed.experiment import compatibility, known
from flatfed.experiment.catalog import Catalog, Declared
from flatfed.experiment.model import Figure, Panel, PanelEntry
from flatfed.papers.figure_kinds import KINDS, PROBES, Kind


class Parameter(NamedTuple):
    """A parameter of a sweep: its ``value`` in a run description, its axis label, and the keys of a row that set it."""

    value: Callable[[dict[str, Any]], float]
    axis: str
    keys: tuple[str, ...] = ()


#: Name in panels and labels -> parameter.
PARAMETERS = {
    "active_clients": Parameter(
        lambda about: about["partition"]["clients"] * about["sampling"]["fraction"],
        "Clients active in a round (expected)",
    ),
    "clients": Parameter(lambda about: about["partition"]["clients"], "Clients"),
    "local_epochs": Parameter(lambda about: about["local_epochs"], "Local epochs $K$ of a round", ("local_epochs",)),
    "learning_rate_decay": Parameter(
        lambda about: about["learning_rate_decay"], "Learning rate's decay per round", ("learning_rate_decay",)
    ),
    "rho": Parameter(lambda about: about["update"]["params"]["rho"], r"Perturbation radius $\rho$", ("rho",)),
    "alpha": Parameter(
        lambda about: about["update"]["params"]["alpha"], r"Weight $\beta$ of the fresh gradient", ("alpha",)
    ),
    "beta": Parameter(
        lambda about: 1 / about["update"]["params"]["penalty"], r"Penalised coefficient $\beta$", ("penalty",)
    ),
    "rho_per_learning_rate": Parameter(
        lambda about: about["update"]["params"]["rho"] / about["learning_rate"],
        r"$\rho / \eta_l$",
        ("rho", "learning_rate"),
    ),
}

#: Keys that a panel inherits from its figure, and a series, point or partition from its panel.
OF_FIGURE = ("protocol", "rows", "metric", "decentralised")
OF_PANEL = ("protocol", "split", "splits", "rows", "metric", "decentralised")


def figure(name: str, declared: Declared, catalog: Catalog) -> Figure:
    """Return the figure ``name`` as ``declared``; ConfigError for unknown ids."""
    document, where = declared.content, declared.file
    kind_id, kind = document["kind"], KINDS[document["kind"]]
    shared = {key: document[key] for key in OF_FIGURE if key in document}
    # A list of splits gives one panel per split.
    panels = [{**shared, **panel} for panel in document.get("panels") or [{"split": id_} for id_ in document["splits"]]]
    for metric in [entry["metric"] for entry in (document, *panels) if "metric" in entry]:
        known.check("metric", metric, kind.quantities, f"{where}: metric (kind {kind_id})")
    for index, row in enumerate(document.get("rows", [])):
        known.check_algorithm(row, catalog.algorithms, f"{where}: rows[{index}]")
    at = f"{where}: panels[{{}}]" if "panels" in document else where
    resolved = [_panel(panel, kind_id, catalog, at.format(index)) for index, panel in enumerate(panels)]
    return Figure(name, where, kind_id, tuple(resolved), document)


def _panel(panel: dict[str, Any], kind_id: str, catalog: Catalog, where: str) -> Panel:
    """Return a panel of a figure; ``panel`` includes the keys inherited from the figure."""
    kind = KINDS[kind_id]
    known.check("parameter", panel.get("parameter", "rho"), PARAMETERS, f"{where}: parameter")
    shared = {key: panel[key] for key in OF_PANEL if key in panel}
    parts = panel.get("series") or panel.get("points") or panel.get("partitions") or [{}]
    return Panel(
        entries=tuple(_entry({**shared, **part}, kind, catalog, where) for part in parts),
        levels=_entry({**shared, "rows": panel["levels"]}, kind, catalog, where) if "levels" in panel else None,
        title=panel["title"] if "title" in panel else ", ".join(catalog.splits[panel["split"]]["label"]),
        metric=panel.get("metric"),
        parameter=panel.get("parameter"),
        rows=tuple(panel.get("rows", ())),
    )


def _entry(entry: dict[str, Any], kind: Kind, catalog: Catalog, where: str) -> PanelEntry:
    """Return a series, point or partition; ``entry`` includes the keys inherited from its panel.

    :raises ConfigError: a required key is missing, or an id does not exist.
    """
    rows = [entry["row"]] if "row" in entry else entry.get("rows", [])
    rows = [f"{row}~{entry['variant']}" if "variant" in entry else row for row in rows]
    trained = kind.reads != "partitions"
    if trained and not rows:
        raise ConfigError(f"{where}: key 'rows' is missing; ids of config/algorithms.yaml")
    if "protocol" not in entry:
        raise ConfigError(f"{where}: key 'protocol' is missing; an id of config/protocols")
    protocol = compatibility.protocol_of(entry["protocol"], catalog, where)
    _check_label(entry.get("label", ""), f"{where}: label")
    if entry.get("metric") in PROBES and "probe" not in protocol.scales["paper"]:
        raise ConfigError(f"{where}: metric {entry['metric']!r} needs a probe, which {protocol.id} does not have")
    several = [] if kind.one_seed else entry.get("splits")
    splits = several or ([entry["split"]] if "split" in entry else [])
    if not splits:
        raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
    trained_on: dict[str, tuple[str, ...]] = {}
    for split in splits:
        known.check("split", split, catalog.splits, f"{where}: split")
        compatibility.check(protocol.id, split, catalog, where)
        for row in rows if trained else ():
            known.check_algorithm(row, catalog.algorithms, f"{where}: rows")
            on = compatibility.own_split(protocol.id, split, row, entry.get("decentralised", "*"), catalog, where)
            trained_on[row] = (*trained_on.get(row, ()), on)
    return PanelEntry(protocol.id, tuple(splits), trained_on, entry.get("label"), entry.get("preview", True))


def _check_label(label: str, where: str) -> None:
    """Refuse a label with other braces than a parameter with an optional format such as ``:g`` or ``:.2f``."""
    try:
        parts = list(string.Formatter().parse(label))
    except ValueError as error:
        raise ConfigError(f"{where}: {label!r}: {error}; a parameter in braces is wanted, as in {{rho:g}}") from None
    for _, name, form, conversion in parts:
        if name is not None:
            known.check("parameter", name, PARAMETERS, where)
        if conversion or (form and not re.fullmatch(r"(\.[0-9])?[efg%]", form)):
            raise ConfigError(
                f"{where}: {label!r}: format {form or conversion!r} is not allowed; one such as :g is wanted"
            )
