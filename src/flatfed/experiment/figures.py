"""Figures: the YAML that says what the paper's figure shows, checked."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any

from flatfed import algorithms as registry
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import compatibility
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Figure
from flatfed.papers.figure_kinds import KINDS, PROBES

#: Keys that figures of all kinds may have.
COMMON = ("kind", "title", "paper", "caption", "decentralised")

#: What a sweep can vary -> (its value in a run's description, the axis, the keys of a row that it is made of).
PARAMETERS: dict[str, tuple[Callable[[dict[str, Any]], float], str, tuple[str, ...]]] = {
    "active_clients": (
        lambda about: about["partition"]["clients"] * about["sampling"]["fraction"],
        "Clients active in a round (expected)",
        (),
    ),
    "clients": (lambda about: about["partition"]["clients"], "Clients", ()),
    "local_epochs": (lambda about: about["local_epochs"], "Local epochs $K$ of a round", ("local_epochs",)),
    "learning_rate_decay": (
        lambda about: about["learning_rate_decay"],
        "Learning rate's decay per round",
        ("learning_rate_decay",),
    ),
    "rho": (lambda about: about["update"]["params"]["rho"], r"Perturbation radius $\rho$", ("rho",)),
    "alpha": (lambda about: about["update"]["params"]["alpha"], r"Weight $\beta$ of the fresh gradient", ("alpha",)),
    "beta": (
        lambda about: 1 / about["update"]["params"]["penalty"],
        r"Penalised coefficient $\beta$",
        ("penalty",),
    ),
    "rho_per_learning_rate": (
        lambda about: about["update"]["params"]["rho"] / about["learning_rate"],
        r"$\rho / \eta_l$",
        ("rho", "learning_rate"),
    ),
}

#: What a series, point or partition takes from its panel.
SHARED = ("protocol", "split", "splits", "rows", "decentralised")


def figure(name: str, document: dict[str, Any], catalog: Catalog) -> Figure:
    """Return the figure declared in config/figures/<name>.yaml; ConfigError for what does not exist."""
    where = f"config/figures/{name}.yaml"
    kind_id, kind = document["kind"], KINDS[document["kind"]]
    for key in kind.needs:
        if key not in document:
            raise ConfigError(f"{where}: key {key!r} is missing; kind {kind_id} needs {', '.join(kind.needs)}")
    known = (*COMMON, *kind.needs, *kind.takes)
    for key in document:
        if key not in known:
            raise ConfigError(unknown("key", key, known, f"{where} (kind {kind_id})"))
    if not document.get("panels") and not document.get("splits"):
        raise ConfigError(f"{where}: key 'panels' is missing, or 'splits' in its place; a figure has a panel at least")
    for metric in [entry["metric"] for entry in (document, *panels(document)) if "metric" in entry]:
        if metric not in kind.quantities:
            raise ConfigError(unknown("metric", metric, kind.quantities, f"{where}: metric (kind {kind_id})"))
    for scale, width in document.get("smooth", {}).items():
        if width > 1 and width % 2 == 0:
            raise ConfigError(
                f"{where}: smooth.{scale}: {width} is not allowed; an odd number of rounds, or 0, is wanted"
            )
    for place, row in enumerate(document.get("rows", [])):
        if row not in catalog.algorithms:
            raise registry.unknown_algorithm(row, catalog.algorithms, f"{where}: rows[{place}]")
    for split in document.get("splits", []):
        if split not in catalog.splits:
            raise ConfigError(unknown("split", split, catalog.splits, f"{where}: splits"))
    for place, panel in enumerate(panels(document)):
        at = f"{where}: panels[{place}]" if "panels" in document else where
        _check_panel(panel, document, catalog, at)
    return Figure(name, kind_id, document)


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a figure, each with all that holds for it: one a split where the figure lists splits."""
    common = {key: document[key] for key in ("protocol", "rows", "metric", "decentralised") if key in document}
    own = document.get("panels") or [{"split": split} for split in document["splits"]]
    return [{**common, **panel} for panel in own]


def _check_panel(panel: dict[str, Any], document: dict[str, Any], catalog: Catalog, where: str) -> None:
    if panel.get("parameter", "rho") not in PARAMETERS:
        raise ConfigError(unknown("parameter", panel["parameter"], PARAMETERS, f"{where}: parameter"))
    for key in KINDS[document["kind"]].panel_needs:
        if key not in panel:
            raise ConfigError(f"{where}: key {key!r} is missing; a panel of kind {document['kind']} needs it")
    if "title" not in panel and "split" not in panel:
        raise ConfigError(f"{where}: key 'title' is missing; only a panel of one `split` takes its name")
    for one in entries(panel):
        _check_entry(one, panel, document, catalog, where)
    models = [row for one in entries(panel) for row in rows(one)]
    if "frame" in panel and (document["kind"] != "surface" or panel["frame"] not in models):
        raise ConfigError(unknown("row", panel["frame"], models, f"{where}: frame (of kind surface, one of its rows)"))
    if "frame" in panel and len(models) != 2:
        raise ConfigError(f"{where}: frame: {panel['frame']!r} is for two models in one frame, not {len(models)}")
    ends = [one["protocol"] for one in entries(panel) for _ in rows(one)]
    if document["kind"] == "line" and (len(ends) < 2 or len(set(ends)) > 1):
        raise ConfigError(f"{where}: a line is between two models of one protocol; rows or series, its start first")


def _check_entry(
    entry: dict[str, Any], panel: dict[str, Any], document: dict[str, Any], catalog: Catalog, where: str
) -> None:
    """Refuse a series, point or partition of a panel that lacks what it is of, or names what is not there."""
    kind = KINDS[document["kind"]]
    trained = kind.reads != "partitions"
    if trained and not rows(entry):
        raise ConfigError(f"{where}: key 'rows' is missing; ids of config/algorithms.yaml")
    if "protocol" not in entry:
        raise ConfigError(f"{where}: key 'protocol' is missing; an id of config/protocols")
    protocol = compatibility.protocol_of(entry["protocol"], catalog, where)
    _check_label(entry.get("label", ""), f"{where}: label")
    if panel.get("metric") in PROBES and "probe" not in protocol.scales["paper"]:
        raise ConfigError(f"{where}: metric {panel['metric']!r} needs a probe, which {protocol.id} does not have")
    several = [] if kind.one_seed else entry.get("splits")
    splits = several or ([entry["split"]] if "split" in entry else [])
    if not splits:
        raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
    for split in splits:
        if split not in catalog.splits:
            raise ConfigError(unknown("split", split, catalog.splits, f"{where}: split"))
        compatibility.check(protocol, split, catalog, where)
        for row in rows(entry) if trained else ():
            if row not in catalog.algorithms:
                raise registry.unknown_algorithm(row, catalog.algorithms, f"{where}: rows")
            own = compatibility.own_split(split, row, entry.get("decentralised", "*"), catalog, where)
            compatibility.check_pair(protocol.id, own, row, catalog, where)


def _check_label(label: str, where: str) -> None:
    """Refuse a label whose braces do not hold a parameter, with a format such as ``:g`` or ``:.2f`` or without."""
    try:
        parts = list(string.Formatter().parse(label))
    except ValueError as error:
        raise ConfigError(f"{where}: {label!r}: {error}; a parameter in braces is wanted, as in {{rho:g}}") from None
    for _, name, form, conversion in parts:
        if name is not None and name not in PARAMETERS:
            raise ConfigError(unknown("parameter", name, PARAMETERS, where))
        if conversion or (form and not re.fullmatch(r"(\.[0-9])?[efg%]", form)):
            raise ConfigError(
                f"{where}: {label!r}: format {form or conversion!r} is not allowed; one such as :g is wanted"
            )


def entries(panel: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a panel's series, points or partitions, each with the panel's own protocol, split and rows."""
    common = {key: panel[key] for key in SHARED if key in panel}
    parts = panel.get("series") or panel.get("points") or panel.get("partitions") or [{}]
    entries = [{**common, **part} for part in parts]
    return [*entries, {**common, "rows": panel["levels"]}] if "levels" in panel else entries


def rows(entry: dict[str, Any]) -> list[str]:
    """Return the ids of the algorithms of a series or a point; a point's ``variant`` is a label added to each."""
    rows = [entry["row"]] if "row" in entry else entry.get("rows", [])
    return [f"{row}~{entry['variant']}" if "variant" in entry else row for row in rows]
