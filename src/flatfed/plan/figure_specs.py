"""The specification of a figure at a scale: what to draw, from which files, with which texts."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flatfed.errors import ConfigError, unknown
from flatfed.plan import measures, run_specs, set_ups, table_specs, tuning
from flatfed.plan.experiment import Experiment
from flatfed.plan.figure_kinds import KINDS
from flatfed.plan.figures import PARAMETERS, Figure, Panel, PanelEntry
from flatfed.plan.numbers import Number
from flatfed.plan.set_ups import DatasetSpec
from flatfed.plan.tables import TrainedRow
from flatfed.runs.paths import RunIds
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mark of a panel: the line, bar, point or surface of a row, or a partition without runs.

    ``numbers``: one per seed; their runs are averaged. ``files``: partition, landscape or Hessians to draw instead.
    ``x``: the value of the swept parameter. ``steps``: communications per round.
    """

    label: str
    algorithm: str = ""
    numbers: Sequence[Number] = ()
    files: Sequence[str] = ()
    x: float = 0.0
    steps: int = 1

    @property
    def runs(self) -> list[Run]:
        """The runs, ordered by seed."""
        return [run for number in self.numbers for run in number.runs]


@dataclass(frozen=True, kw_only=True)
class DrawnPanel:
    """A panel and its ``marks``.

    ``metric``: of curves, None for the figure's. In a sweep, ``axis`` is the label of the parameter, and ``levels`` are
    rows that do not depend on it.
    """

    title: str
    marks: Sequence[Mark]
    metric: str | None = None
    axis: str = ""
    levels: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure at a scale.

    ``prefix``: the text before ``title``. ``tuning``, ``unstated``: lines on tuned hyper-parameters and on choices that
    the paper does not state. ``metric``: the default of the panels. ``smooth``: the odd width of a Hanning window in
    evaluated rounds, or 0. ``across``: the horizontal axis of curves, "rounds" or "communications".
    """

    figure: str
    kind: str
    scale: str
    title: str
    panels: Sequence[DrawnPanel]
    prefix: str = ""
    paper: str = ""
    setting: str = ""
    caption: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    tuning: Sequence[str] = ()
    unstated: Sequence[str] = ()
    metric: str | None = None
    smooth: int = 0
    across: str = "rounds"

    @property
    def analysed(self) -> bool:
        """Whether the figure reads Hessians or loss surfaces."""
        return KINDS[self.kind].reads == "analyses"

    @property
    def marks(self) -> list[Mark]:
        """The marks and levels of all panels."""
        return [mark for panel in self.panels for mark in (*panel.marks, *panel.levels)]

    @property
    def runs(self) -> dict[str, Run]:
        """Folder -> run."""
        return {run.path: run for mark in self.marks for run in mark.runs}

    @property
    def inputs(self) -> list[str]:
        """The files that the figure reads."""
        files = [file for mark in self.marks for file in mark.files]
        files += [file for run in self.runs.values() for file in (run.partition, *run.files)]
        return list(dict.fromkeys(files))


def figure_spec(experiment: Experiment, scale: str, figure: str) -> FigureSpec:
    """Return the specification of a figure; ConfigError if it does not exist."""
    layout, catalog = experiment.figure_at(scale, figure), experiment.catalog
    document, kind = layout.document, KINDS[layout.kind]
    drawn = [_panel(experiment, scale, layout, panel) for panel in layout.panels]
    runs = [run for panel in drawn for mark in (*panel.marks, *panel.levels) for run in mark.runs]
    pairs, trains = layout.pairs(scale), kind.reads != "partitions"
    settings = [
        set_ups.shared_setting(catalog, scale, pairs, trains),
        set_ups.same_data(experiment, scale, layout),
    ]
    texts = [document.caption] if document.caption else []
    texts += measures.defined(catalog, scale, layout)
    if layout.kind == "eigenvalues":
        texts += table_specs.hessian_notes(catalog, scale, [run.protocol for run in runs])
    texts += table_specs.row_notes(catalog, dict.fromkeys(run.algorithm for run in runs))
    trained = [
        TrainedRow(entry.protocol, split, row, catalog.label(row))
        for panel in layout.panels
        for entry in panel.all_entries(scale)
        for row, splits in entry.rows.items()
        for split in splits
    ]
    return FigureSpec(
        figure=layout.id,
        kind=layout.kind,
        scale=scale,
        prefix=set_ups.prefix(catalog, scale, pairs, trains),
        title=document.title,
        panels=drawn,
        paper=document.paper or "",
        setting="; ".join(filter(None, settings)),
        caption=" ".join(texts),
        datasets=set_ups.datasets(experiment, scale, pairs),
        tuning=table_specs.tuning_notes(experiment, scale, trained),
        unstated=table_specs.unstated(experiment, scale, trained, _not_shown(layout)) if scale == "paper" else [],
        metric=document.metric or kind.default,
        smooth=getattr(document.smooth, scale, 0),
        across=document.across or "rounds",
    )


def _not_shown(figure: Figure) -> set[str]:
    """Return the keys of ``unstated:`` that do not apply: swept keys, and seeds if the figure shows one seed."""
    swept = {key for panel in figure.panels if panel.parameter for key in PARAMETERS[panel.parameter].keys}
    return swept | ({"seeds", "spread"} if KINDS[figure.kind].one_seed else set())


def _panel(experiment: Experiment, scale: str, figure: Figure, panel: Panel) -> DrawnPanel:
    return DrawnPanel(
        title=panel.title,
        marks=_marks(experiment, scale, figure, panel),
        metric=panel.metric if figure.kind == "curves" else None,
        axis=PARAMETERS[panel.parameter].axis if panel.parameter else "",
        levels=_rows(experiment, scale, figure, panel, [panel.levels]) if panel.levels else [],
    )


def _marks(experiment: Experiment, scale: str, figure: Figure, panel: Panel) -> list[Mark]:
    if KINDS[figure.kind].reads == "partitions":
        partitions = [(entry.label or "", entry.protocol, entry.splits[0]) for entry in panel.entries]
        seed, partition_path = figure.document.seed, experiment.paths.partition
        return [Mark(label=label, files=[partition_path(scale, *pair, seed)]) for label, *pair in partitions]
    if figure.kind == "sweep":
        return _points(experiment, scale, figure, panel)
    rows = _rows(experiment, scale, figure, panel, panel.shown(scale))
    if figure.kind == "eigenvalues":
        return [replace(row, files=[run.hessian for run in row.runs]) for row in rows]
    if figure.kind == "surface":
        return [replace(row, files=[row.runs[0].surface(figure.document.set)]) for row in rows]
    if figure.document.across == "communications":
        return [replace(row, steps=row.runs[0].config.update.params.get("gossip_steps", 1)) for row in rows]
    return rows


def _rows(
    experiment: Experiment, scale: str, figure: Figure, panel: Panel, entries: Iterable[PanelEntry]
) -> list[Mark]:
    rows = []
    for entry in entries:
        settings = experiment.catalog.settings(scale, entry.protocol)
        about = {"table": figure.id, "column": panel.title, "scale": scale, "metric": panel.metric or ""}
        about |= {"unit": "number", "rounds": settings.rounds, "window": settings.evaluation.window}
        seeds = run_specs.seeds(experiment, scale, entry.protocol, figure.document.seeds)
        if KINDS[figure.kind].one_seed:
            seeds = [figure.document.seed or seeds[0]]
        for row, splits in entry.rows.items():
            ids = ([RunIds(scale, entry.protocol, split, row, seed) for split in splits] for seed in seeds)
            runs = (tuple(run_specs.resolved(experiment, id_) for id_ in of_seed) for of_seed in ids)
            numbers = [Number(**about, row=row, seed=of_seed[0].seed, runs=of_seed) for of_seed in runs]
            label = _label(entry.label, numbers[0].runs[0]) if entry.label else experiment.catalog.label(row)
            rows.append(Mark(label=label, algorithm=row, numbers=numbers))
    return rows


def _points(experiment: Experiment, scale: str, figure: Figure, panel: Panel) -> list[Mark]:
    points: dict[tuple[str, float], Mark] = {}
    for entry in panel.shown(scale):
        for row, variant in zip(panel.rows, _rows(experiment, scale, figure, panel, [entry]), strict=True):
            numbers = [
                replace(number, runs=tuple(_plain_run(experiment, run, panel.parameter) for run in number.runs))
                for number in variant.numbers
            ]
            point = replace(variant, label=experiment.catalog.label(row), algorithm=row, numbers=numbers)
            x, *further = sorted({round(_value(panel.parameter, run), 10) for run in point.runs})
            where = f"config/figures: {panel.parameter} of {variant.algorithm} in {entry.protocol} ({scale} scale)"
            if further:
                xs = ", ".join(f"{value:g}" for value in (x, *further))
                raise ConfigError(f"{where}: the runs of one point have {xs}; set one value with a variant")
            if (row, x) in points:
                raise ConfigError(f"{where}: two points of {row} have {x:g}; give each value once")
            points[row, x] = replace(point, x=x)
    return [points[key] for key in sorted(points, key=lambda key: (panel.rows.index(key[0]), key[1]))]


def _plain_run(experiment: Experiment, run: Run, parameter: str) -> Run:
    """Return a sweep's ``run``, or the plain row's run if both train the same.

    :raises ConfigError: tuning would choose the value of the swept parameter.
    """
    ids = (run.scale, run.protocol, run.split)
    search = tuning.search(experiment.catalog, *ids, run.algorithm)
    keys = tuning.open_keys(experiment.catalog, search, run.protocol, run.algorithm)
    for key in PARAMETERS[parameter].keys:
        if key in keys:
            raise ConfigError(
                f"config/figures: {run.algorithm} in {run.protocol}: {parameter} is swept, but `tune:` would choose "
                f"{key}; give each point a variant that sets {key}"
            )
    plain = run_specs.resolved(experiment, RunIds(*ids, run.algorithm.partition("~")[0], run.seed))
    return plain if run.config.model_copy(update={"algorithm": plain.algorithm}) == plain.config else run


def _label(label: str, run: Run) -> str:
    parameters = [name for _, name, _, _ in string.Formatter().parse(label) if name]
    return label.format(**{name: _value(name, run) for name in parameters})


def _value(parameter: str, run: Run) -> float:
    training = {key: getattr(run.config, key) for key in ("local_epochs", "learning_rate", "learning_rate_decay")}
    clients = {"clients": run.config.partition.clients, "fraction": run.config.sampling.fraction}
    values = {**run.config.update.params, **training, **clients}
    compute = PARAMETERS[parameter].compute or (lambda values: values[parameter])
    try:
        return compute(values)
    except KeyError:
        where = f"config/figures: {run.algorithm} in {run.protocol}"
        raise ConfigError(unknown("parameter", parameter, [n for n in PARAMETERS if n in values], where)) from None
