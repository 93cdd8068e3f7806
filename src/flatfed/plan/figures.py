"""The document of a figure -> panels and their entries."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from flatfed.config.figure import DrawnPartition, FigureDocument, PanelDocument, PointDocument, Series
from flatfed.errors import ConfigError
from flatfed.plan import compatibility, lookup
from flatfed.plan.catalog import Catalog, Declared
from flatfed.plan.figure_kinds import KINDS, PROBES


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
    """A figure, declared in ``file``."""

    id: str
    file: str
    document: FigureDocument
    panels: tuple[Panel, ...]

    @property
    def kind(self) -> str:
        """A name of :data:`flatfed.plan.figure_kinds.KINDS`."""
        return self.document.kind

    @property
    def protocols(self) -> list[str]:
        """The protocols of all panels, in order."""
        return list(dict.fromkeys(entry.protocol for panel in self.panels for entry in panel.all_entries("paper")))

    def pairs(self, scale: str) -> list[tuple[str, str]]:
        """Return all (protocol, split)s that ``scale`` shows."""
        entries = [entry for panel in self.panels for entry in panel.all_entries(scale)]
        return list(dict.fromkeys(pair for entry in entries for pair in entry.pairs))


def figure(name: str, declared: Declared, catalog: Catalog) -> Figure:
    """Return the figure ``name``; ConfigError for unknown ids."""
    document, where = declared.content, declared.file
    for entry in (document, *(document.panels or ())):
        if entry.metric:
            allowed = KINDS[document.kind].quantities
            lookup.check("metric", entry.metric, allowed, f"{where}: metric (kind {document.kind})")
    for index, row in enumerate(document.rows or ()):
        lookup.check_algorithm(row, catalog.algorithms, f"{where}: rows[{index}]")
    # A list of splits gives one panel per split.
    panels = document.panels or [PanelDocument(split=split) for split in document.splits]
    places = (f"{where}: panels[{index}]" if document.panels else where for index in range(len(panels)))
    resolved = (_panel(panel, document, catalog, place) for panel, place in zip(panels, places, strict=True))
    return Figure(name, where, document, tuple(resolved))


def _panel(panel: PanelDocument, figure: FigureDocument, catalog: Catalog, where: str) -> Panel:
    """Return a ``panel`` with the keys that it inherits from its ``figure``."""
    inherited = {key: getattr(panel, key) or getattr(figure, key) for key in ("protocol", "rows", "metric")}
    panel = panel.model_copy(update={**inherited, "metric": inherited["metric"] or KINDS[figure.kind].default})
    lookup.check("parameter", panel.parameter or "rho", PARAMETERS, f"{where}: parameter")
    parts = panel.series or panel.points or panel.partitions or [PointDocument()]
    levels = panel.model_copy(update={"rows": panel.levels})
    return Panel(
        entries=tuple(_entry(part, panel, figure, catalog, where) for part in parts),
        levels=_entry(PointDocument(), levels, figure, catalog, where) if panel.levels else None,
        title=panel.title or ", ".join(catalog.splits[panel.split].headers),
        metric=panel.metric,
        parameter=panel.parameter,
        rows=tuple(panel.rows or ()),
    )


def _entry(
    part: Series | PointDocument | DrawnPartition,
    panel: PanelDocument,
    figure: FigureDocument,
    catalog: Catalog,
    where: str,
) -> PanelEntry:
    """Return a part of a ``panel`` with the keys that it inherits from it."""
    kind = KINDS[figure.kind]
    rows = [part.row] if isinstance(part, Series) else panel.rows or []
    rows = [f"{row}~{part.variant}" for row in rows] if getattr(part, "variant", None) else rows
    trained = kind.reads != "partitions"
    if trained and not rows:
        raise ConfigError(f"{where}: key 'rows' is missing; ids of config/algorithms.yaml")
    name, split, label = part.protocol or panel.protocol, part.split or panel.split, getattr(part, "label", None)
    if not name:
        raise ConfigError(f"{where}: key 'protocol' is missing; an id of config/protocols")
    protocol = compatibility.protocol_of(name, catalog, where)
    _check_label(label or "", f"{where}: label")
    if panel.metric in PROBES and not protocol.at_paper_scale.probe:
        raise ConfigError(f"{where}: metric {panel.metric!r} needs a probe, which {protocol.id} does not have")
    splits = (not kind.one_seed and panel.splits) or ([split] if split else [])
    if not splits:
        raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
    trained_on: dict[str, tuple[str, ...]] = {}
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: split")
        compatibility.check(protocol.id, split, catalog, where)
        for row in rows if trained else ():
            lookup.check_algorithm(row, catalog.algorithms, f"{where}: rows")
            on = compatibility.training_split(protocol.id, row, split, figure.decentralised, catalog, where)
            trained_on[row] = (*trained_on.get(row, ()), on)
    return PanelEntry(protocol.id, tuple(splits), trained_on, label, getattr(part, "preview", True))


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
