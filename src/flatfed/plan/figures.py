"""The kinds of figures, the quantities on their axes, and a figure's document -> panels and their marks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flatfed.config.figure import FigureDocument, PanelDocument, Part, PointDocument, Series, SweepPanel
from flatfed.errors import ConfigError
from flatfed.plan import checks, lookup, sweeps
from flatfed.plan.catalog import Catalog
from flatfed.plan.lookup import Declared, Mistakes
from flatfed.plan.number import Number
from flatfed.runs.paths import SCALES
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


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line, bar, point, surface or partition of a panel: the runs of an ``algorithm``, averaged over ``splits``.

    ``label``: a text with parameters in braces, "" for the algorithm's. ``line``: the row whose points a sweep
    connects, "" for a level, which does not depend on the parameter. ``scales``: those that show it. The rest depends
    on the scale: ``numbers``, one per seed; ``files``: partition, landscape or Hessians to draw; ``x``: the value of
    the swept parameter; ``steps``: communications per round.
    """

    label: str = ""
    protocol: str = ""
    splits: tuple[str, ...] = ()
    algorithm: str = ""
    line: str = ""
    scales: tuple[str, ...] = SCALES
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


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel and its ``marks``; in a sweep, ``parameter`` varies along an axis with the label ``axis``."""

    title: str
    marks: Sequence[Mark]
    metric: str | None = None
    parameter: str | None = None
    axis: str = ""

    def in_preview(self, catalog: Catalog) -> Panel:
        """Return the panel; its title has the data of the preview, and its classes per client in place of "c = 30"."""
        protocol, split = self.marks[0].pairs[0]
        settings = (catalog.split_settings(scale, protocol, split) for scale in ("paper", "preview"))
        title = self.title.replace(*(f"c = {of_scale.partition.classes_per_client}" for of_scale in settings))
        return replace(self, title=f"{title} (preview on {catalog.dataset('preview', protocol).label})")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure, declared in ``file``."""

    id: str
    file: str
    document: FigureDocument
    panels: Sequence[Panel]

    @property
    def kind(self) -> str:
        """A name of :data:`KINDS`."""
        return self.document.kind

    @property
    def marks(self) -> list[Mark]:
        """The marks of all panels."""
        return [mark for panel in self.panels for mark in panel.marks]

    @property
    def protocols(self) -> list[str]:
        """The protocols of all panels, in order."""
        return list(dict.fromkeys(mark.protocol for mark in self.marks))

    def in_preview(self, catalog: Catalog) -> Figure:
        """Return the figure of a preview: without a paper's caption, with the titles of a preview."""
        caption = None if self.document.paper else self.document.caption
        panels = [panel.in_preview(catalog) for panel in self.panels]
        return replace(self, panels=panels, document=self.document.model_copy(update={"caption": caption}))


def figure(name: str, declared: Declared, catalog: Catalog) -> Figure:
    """Return the figure ``name``; ConfigError for unknown ids, a line for each panel."""
    document, where = declared.content, declared.file
    # A list of splits gives one panel per split.
    declared_panels = getattr(document, "panels", None)
    panels = declared_panels or [PanelDocument(split=split) for split in document.splits]
    places = (f"{where}: panels[{index}]" if declared_panels else where for index in range(len(panels)))
    resolved, mistakes = [], Mistakes()
    for panel, place in zip(panels, places, strict=True):
        with mistakes.noted():
            resolved.append(_panel(panel, document, catalog, place))
    mistakes.stop()
    return Figure(id=name, file=where, document=document, panels=tuple(resolved))


def _panel(panel: PanelDocument, figure: FigureDocument, catalog: Catalog, where: str) -> Panel:
    """Return a ``panel`` with the keys that it inherits from its ``figure``."""
    kind = KINDS[figure.kind]
    inherited = {key: getattr(panel, key) or getattr(figure, key, None) for key in ("protocol", "rows", "metric")}
    panel = panel.model_copy(update={**inherited, "metric": inherited["metric"] or kind.default})
    if panel.metric:
        lookup.check("metric", panel.metric, kind.quantities, f"{where}: metric (kind {figure.kind})")
    parameter, points = (panel.parameter, panel.points) if isinstance(panel, SweepPanel) else (None, None)
    axis = ""
    parts = panel.series or points or panel.partitions or [PointDocument()]
    marks = [mark for part in parts for mark in _marks(part, panel, figure, catalog, where)]
    if isinstance(panel, SweepPanel):
        for row in {mark.algorithm: None for mark in marks}:
            lookup.check("parameter", parameter, sweeps.parameters(row), f"{where}: parameter")
        axis = panel.axis or sweeps.parameters(marks[0].algorithm)[parameter].axis
        marks = [replace(mark, line=mark.algorithm) for mark in marks] + _of_values(panel, marks, catalog, where)
        levels = panel.model_copy(update={"rows": panel.levels})
        marks += _marks(PointDocument(), levels, figure, catalog, where) if panel.levels else []
    title = panel.title or ", ".join(catalog.splits[panel.split].headers)
    return Panel(title=title, marks=marks, metric=panel.metric, parameter=parameter, axis=axis)


def _of_values(panel: SweepPanel, marks: Sequence[Mark], catalog: Catalog, where: str) -> list[Mark]:
    """Return the points of the ``values:`` of a sweep's ``panel``: variants of its ``marks``."""
    points = []
    for mark, (value, scales) in itertools.product(marks, panel.scales_of_values.items()):
        if not (key := sweeps.parameters(mark.algorithm)[panel.parameter].key):
            raise ConfigError(f"{where}: values: no key of a row sets {panel.parameter}; write `points`")
        name = sweeps.variant(mark.algorithm, key, value, catalog.algorithms)
        lookup.check_algorithm(name, catalog.algorithms, f"{where}: values")
        points.append(replace(mark, algorithm=name, line=mark.algorithm, scales=scales))
    return points


def _marks(
    part: Part,
    panel: PanelDocument,
    figure: FigureDocument,
    catalog: Catalog,
    where: str,
) -> list[Mark]:
    """Return the marks of a part of a ``panel``, which gives it absent keys: one per row, or a partition."""
    kind = KINDS[figure.kind]
    rows = [part.row] if isinstance(part, Series) else panel.rows or []
    name, split, label = part.protocol or panel.protocol, part.split or panel.split, getattr(part, "label", None) or ""
    splits = tuple((not kind.one_seed and panel.splits) or ([split] if split else []))
    for key, value, meaning in (
        ("rows", rows or kind.reads == "partitions", "ids of config/algorithms.yaml"),
        ("protocol", name, "an id of config/protocols"),
        ("split", splits, "an id of config/splits.yaml"),
    ):
        if not value:
            raise ConfigError(f"{where}: key '{key}' is missing; {meaning}")
    protocol = lookup.entry("protocol", name, catalog.protocols, f"{where}: protocol")
    if panel.metric in PROBES and not protocol.at_paper_scale.probe:
        raise ConfigError(f"{where}: metric {panel.metric!r} needs a probe, which {protocol.id} does not have")
    for split in splits:
        lookup.check("split", split, catalog.splits, f"{where}: split")
        checks.check_fit(catalog, protocol.id, split)
    scales = SCALES if getattr(part, "preview", True) else ("paper",)
    mark = Mark(label=label, protocol=protocol.id, splits=splits, scales=scales)
    if kind.reads == "partitions":
        return [mark]
    marks = []
    for row in rows:
        lookup.check_algorithm(row, catalog.algorithms, f"{where}: rows")
        sweeps.check_label(label, row, f"{where}: label")
        pairs = ((protocol.id, row, split, figure.decentralised) for split in splits)
        trained_on = tuple(checks.training_split(catalog, *pair, where) for pair in pairs)
        marks.append(replace(mark, algorithm=row, splits=trained_on))
    return marks
