"""The kinds of figures, the quantities on their axes, and a figure's document -> panels and their marks."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flatfed.config.figure import DrawnPartition, FigureDocument, PanelDocument, PointDocument, Series
from flatfed.errors import ConfigError
from flatfed.plan import lookup
from flatfed.plan.catalog import Catalog
from flatfed.plan.lookup import Declared
from flatfed.plan.number import Number
from flatfed.runs.run import Run


@dataclass(frozen=True)
class Quantity:
    """A quantity on an axis; ``factor`` converts a stored value to the unit of the label.

    ``definition``: of a measure of the probes; braces hold keys of a protocol's ``probe:``.
    """

    label: str
    factor: float = 1.0
    definition: str = ""


#: Columns of metrics.csv.
COLUMNS = {
    "test_accuracy": Quantity("Test accuracy (%)", 100.0),
    "train_accuracy": Quantity("Train accuracy (%)", 100.0),
    "client_train_accuracy": Quantity("Clients' train accuracy (%)", 100.0),
    "client_test_accuracy": Quantity("Clients' test accuracy (%)", 100.0),
    "test_loss": Quantity("Test loss (nats)"),
    "train_loss": Quantity("Training loss (nats)"),
    "consistency": Quantity("Consistency $\\frac{1}{n}\\sum\\|w_i-w^{t+1}\\|^2$ (weights, squared)"),
}

#: Measures of the ``probes`` in run.json (:mod:`flatfed.engine.probe`).
PROBES = {
    "perturbation_drift": Quantity(
        "Perturbation drift (0 to 1)",
        definition="Perturbation drift: half the distance of two unit vectors, the client's perturbation and the "
        "gradient of F at the virtual global model, mean over all steps of the active clients. The virtual model "
        "averages all clients, with local steps of the inactive ones too. A step without a perturbation counts as 1/2.",
    ),
    "sharpness": Quantity(
        "Global sharpness (nats)",
        definition="Global sharpness: F(w + ρ g/‖g‖) - F(w), ρ = {rho:g}, g the gradient of F at w: one step of "
        "ascent, a lower bound of the largest rise within ρ.",
    ),
    "m_sharpness": Quantity(
        "Global m-sharpness (nats)",
        definition="Global m-sharpness: the mean of L(w + ρ g/‖g‖) - L(w) over batches of {m} images, L a batch's "
        "loss, g its gradient, ρ = {rho:g}.",
    ),
}

#: The loss in these definitions.
PROBED_LOSS = (
    "F: the mean loss on the same {images:,} training images of all clients (all, if fewer), drawn by the seed; images "
    "of several clients count several times."
)

#: Values of a loss surface.
LANDSCAPE = {"loss": Quantity("Loss (nats)"), "accuracy": Quantity("Accuracy (%)", 100.0)}


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    ``reads``: "runs" (metrics.csv and run.json), "partitions", or "analyses" of final models. ``quantities``: allowed
    values of ``metric``, ``default``: without it. ``one_seed``: it shows one seed instead of a mean.
    """

    reads: str
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    default: str | None = None
    one_seed: bool = False


KINDS = {
    "curves": Kind("runs", {**COLUMNS, **PROBES}, "test_accuracy"),
    "sweep": Kind("runs", COLUMNS, "test_accuracy"),
    "bars": Kind("runs", COLUMNS, "test_accuracy"),
    "partition": Kind("partitions", one_seed=True),
    "histogram": Kind("partitions", one_seed=True),
    "surface": Kind("analyses", LANDSCAPE, "loss", one_seed=True),
    "eigenvalues": Kind("analyses"),
}


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


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line, bar, point, surface or partition of a panel: the runs of an ``algorithm``, averaged over ``splits``.

    ``label``: a text with parameters in braces, "" for the algorithm's. ``line``: the row whose points a sweep
    connects. ``preview``: whether the preview scale shows it. The rest depends on the scale: ``numbers``, one per seed;
    ``files``: partition, landscape or Hessians to draw; ``x``: the value of the swept parameter; ``steps``:
    communications per round.
    """

    label: str = ""
    protocol: str = ""
    splits: tuple[str, ...] = ()
    algorithm: str = ""
    line: str = ""
    preview: bool = True
    numbers: Sequence[Number] = ()
    files: Sequence[str] = ()
    x: float = 0.0
    steps: int = 1

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The (protocol, split)s of its trainings or partitions."""
        return [(self.protocol, split) for split in self.splits]

    @property
    def runs(self) -> list[Run]:
        """The runs at a scale, ordered by seed."""
        return [run for number in self.numbers for run in number.runs]

    def with_runs(self, change: Callable[[Run], Run]) -> Mark:
        """Return the mark with changed runs."""
        return replace(self, numbers=[replace(part, runs=tuple(map(change, part.runs))) for part in self.numbers])


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel and its ``marks``. In a sweep, ``parameter`` varies; ``levels`` are rows that do not depend on it."""

    title: str
    marks: Sequence[Mark]
    metric: str | None = None
    parameter: str | None = None
    levels: Sequence[Mark] = ()

    def shown(self, scale: str) -> list[Mark]:
        """Return the marks and levels that ``scale`` shows."""
        return [mark for mark in (*self.marks, *self.levels) if scale == "paper" or mark.preview]

    def in_preview(self, catalog: Catalog) -> Panel:
        """Return the panel, with protocol and split in place of a title that names the paper's data."""
        protocol, splits = self.marks[0].protocol, self.marks[0].splits
        if catalog.dataset("paper", protocol).label not in self.title:
            return self
        return replace(self, title=f"{protocol}/{splits[0]}" if len(splits) == 1 else protocol)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A declared figure."""

    id: str
    document: FigureDocument
    panels: Sequence[Panel]

    @property
    def kind(self) -> str:
        """A name of :data:`KINDS`."""
        return self.document.kind

    def shown(self, scale: str) -> list[Mark]:
        """Return the marks and levels of all panels that ``scale`` shows."""
        return [mark for panel in self.panels for mark in panel.shown(scale)]

    def in_preview(self, catalog: Catalog) -> Figure:
        """Return the figure of a preview: without a paper's caption, with titles that name none of its data."""
        caption = None if self.document.paper else self.document.caption
        panels = [panel.in_preview(catalog) for panel in self.panels]
        return replace(self, panels=panels, document=self.document.model_copy(update={"caption": caption}))

    @property
    def protocols(self) -> list[str]:
        """The protocols of all panels, in order."""
        return list(dict.fromkeys(mark.protocol for mark in self.shown("paper")))


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
    return Figure(id=name, document=document, panels=tuple(resolved))


def _panel(panel: PanelDocument, figure: FigureDocument, catalog: Catalog, where: str) -> Panel:
    """Return a ``panel`` with the keys that it inherits from its ``figure``."""
    inherited = {key: getattr(panel, key) or getattr(figure, key) for key in ("protocol", "rows", "metric")}
    panel = panel.model_copy(update={**inherited, "metric": inherited["metric"] or KINDS[figure.kind].default})
    lookup.check("parameter", panel.parameter or "rho", PARAMETERS, f"{where}: parameter")
    parts = panel.series or panel.points or panel.partitions or [PointDocument()]
    levels = panel.model_copy(update={"rows": panel.levels})
    marks = [mark for part in parts for mark in _marks(part, panel, figure, catalog, where)]
    return Panel(
        title=panel.title or ", ".join(catalog.splits[panel.split].headers),
        marks=marks,
        metric=panel.metric,
        parameter=panel.parameter,
        levels=_marks(PointDocument(), levels, figure, catalog, where) if panel.levels else (),
    )


def _marks(
    part: Series | PointDocument | DrawnPartition,
    panel: PanelDocument,
    figure: FigureDocument,
    catalog: Catalog,
    where: str,
) -> list[Mark]:
    """Return the marks of a part of a ``panel``, which gives it absent keys: one per row, or a partition."""
    kind = KINDS[figure.kind]
    rows = [part.row] if isinstance(part, Series) else panel.rows or []
    if kind.reads != "partitions" and not rows:
        raise ConfigError(f"{where}: key 'rows' is missing; ids of config/algorithms.yaml")
    name, split, label = part.protocol or panel.protocol, part.split or panel.split, getattr(part, "label", None) or ""
    if not name:
        raise ConfigError(f"{where}: key 'protocol' is missing; an id of config/protocols")
    protocol = lookup.entry("protocol", name, catalog.protocols, f"{where}: protocol")
    _check_label(label, f"{where}: label")
    if panel.metric in PROBES and not protocol.at_paper_scale.probe:
        raise ConfigError(f"{where}: metric {panel.metric!r} needs a probe, which {protocol.id} does not have")
    splits = (not kind.one_seed and panel.splits) or ([split] if split else [])
    if not splits:
        raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: split")
        catalog.check_fit(protocol.id, split, where)
    mark = Mark(label=label, protocol=protocol.id, splits=tuple(splits), preview=getattr(part, "preview", True))
    if kind.reads == "partitions":
        return [mark]
    marks = []
    for row in rows:
        algorithm = f"{row}~{variant}" if (variant := getattr(part, "variant", None)) else row
        lookup.check_algorithm(algorithm, catalog.algorithms, f"{where}: rows")
        pairs = ((protocol.id, algorithm, split, figure.decentralised) for split in splits)
        trained_on = tuple(catalog.training_split(*pair, where) for pair in pairs)
        marks.append(replace(mark, algorithm=algorithm, line=row, splits=trained_on))
    return marks


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
