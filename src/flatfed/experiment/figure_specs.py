"""The contents of a figure at a scale: its panels, its runs and the files that it reads."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import replace

from flatfed.errors import ConfigError, unknown
from flatfed.experiment import measures, run_specs, scales, set_ups, table_specs, tuning
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figures import PARAMETERS
from flatfed.experiment.model import Figure, Panel, PanelEntry, Run, TrainedRow
from flatfed.experiment.panels import DrawnPanel, FigureSpec, Mark
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs.places import RunIds


def figure_spec(experiment: Experiment, scale: str, figure: str) -> FigureSpec:
    """Return the contents of a figure at a scale; ConfigError if there is none."""
    found, catalog = scales.figure(experiment, scale, figure), experiment.catalog
    document, kind = found.settings, KINDS[found.kind]
    drawn = [_panel(experiment, scale, found, panel) for panel in found.panels]
    runs = [run for panel in drawn for mark in (*panel.marks, *panel.levels) for run in mark.runs]
    pairs = found.pairs(scale)
    here = [
        set_ups.in_brief(catalog, scale, pairs, trained=kind.reads != "partitions"),
        set_ups.same_data(experiment, scale, found),
    ]
    measured = measures.defined(catalog, scale, found)
    if found.kind == "eigenvalues":
        measured += table_specs.of_hessians(catalog, scale, [run.protocol for run in runs])
    rows = dict.fromkeys(run.algorithm for run in runs)
    trained = [
        TrainedRow(entry.protocol, split, row, catalog.label(row))
        for panel in found.panels
        for entry in panel.every(scale)
        for row, splits in entry.rows.items()
        for split in splits
    ]
    return FigureSpec(
        figure=found.id,
        kind=found.kind,
        scale=scale,
        title=set_ups.retitled(catalog, scale, document["title"], pairs),
        panels=drawn,
        paper=document["paper"],
        setting="; ".join(filter(None, here)),
        caption=" ".join([*filter(None, [document.get("caption")]), *measured, *table_specs.of_rows(catalog, rows)]),
        datasets=set_ups.datasets(experiment, scale, pairs),
        tuning=table_specs.of_tuning(experiment, scale, trained),
        unstated=table_specs.left_open(experiment, scale, trained, _not_shown(found)) if scale == "paper" else [],
        metric=document.get("metric"),
        smooth=document.get("smooth", {}).get(scale, 0),
        across=document.get("across", "rounds"),
    )


def _not_shown(found: Figure) -> set[str]:
    """Return keys of ``unstated:`` whose lines are untrue of a figure: of seeds where it has one, of what it sweeps."""
    swept = {key for panel in found.panels if panel.parameter for key in PARAMETERS[panel.parameter].keys}
    return swept | ({"seeds", "spread"} if KINDS[found.kind].one_seed else set())


def _panel(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> DrawnPanel:
    """Return a panel of a figure with what it draws."""
    pairs = list(dict.fromkeys(pair for entry in panel.every(scale) for pair in entry.pairs))
    return DrawnPanel(
        title=set_ups.on_data(experiment.catalog, scale, panel.title, pairs),
        marks=_marks(experiment, scale, found, panel),
        metric=panel.metric if found.kind == "curves" else None,
        axis=PARAMETERS[panel.parameter].axis if panel.parameter else "",
        levels=_rows(experiment, scale, found, [panel.levels]) if panel.levels else [],
    )


def _marks(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> list[Mark]:
    """Return what a panel shows, in the order of its file."""
    if KINDS[found.kind].reads == "partitions":
        deals = [(one.label or "", one.protocol, one.splits[0]) for one in panel.entries]
        seed, place = found.settings["seed"], experiment.places.partition
        return [Mark(label=label, files=[place(scale, *pair, seed)]) for label, *pair in deals]
    if found.kind == "sweep":
        return _points(experiment, scale, found, panel)
    rows = _rows(experiment, scale, found, panel.shown(scale))
    if found.kind == "eigenvalues":
        return [replace(row, files=[run.hessian for run in row.runs]) for row in rows]
    if found.kind == "surface":
        return [replace(row, files=[row.runs[0].surface(found.settings.get("set"))]) for row in rows]
    if found.settings.get("across") == "communications":
        return [replace(row, steps=row.runs[0].description["update"]["params"].get("gossip_steps", 1)) for row in rows]
    return rows


def _rows(experiment: Experiment, scale: str, found: Figure, entries: Iterable[PanelEntry]) -> list[Mark]:
    """Return the rows of ``entries`` with their runs, of the figure's seeds or of its one."""
    rows = []
    for entry in entries:
        seeds = run_specs.seeds(experiment, scale, entry.protocol, found.settings.get("seeds"))
        if KINDS[found.kind].one_seed:
            seeds = [found.settings.get("seed", seeds[0])]
        for row, splits in entry.rows.items():
            runs = [
                [run_specs.resolved(experiment, RunIds(scale, entry.protocol, split, row, seed)) for split in splits]
                for seed in seeds
            ]
            label = _label(entry.label, runs[0][0]) if entry.label else experiment.catalog.label(row)
            rows.append(Mark(label=label, algorithm=row, by_seed=runs))
    return rows


def _points(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> list[Mark]:
    """Return the points of a sweep, row by row, each by the value of the parameter in its runs."""
    points: dict[tuple[str, float], Mark] = {}
    for entry in panel.shown(scale):
        for row, variant in zip(panel.rows, _rows(experiment, scale, found, [entry]), strict=True):
            runs = [[_own(experiment, run, panel.parameter) for run in of_seed] for of_seed in variant.by_seed]
            x, *others = sorted({round(_value(panel.parameter, run), 10) for of_seed in runs for run in of_seed})
            where = f"config/figures: {panel.parameter} of {variant.algorithm} in {entry.protocol} ({scale} scale)"
            if others:
                said = ", ".join(f"{value:g}" for value in (x, *others))
                raise ConfigError(f"{where}: the runs of one point have {said}; one value is wanted, set by a variant")
            if (row, x) in points:
                raise ConfigError(f"{where}: two points of {row} have {x:g}; each value is wanted once")
            points[row, x] = Mark(label=experiment.catalog.label(row), algorithm=row, by_seed=runs, x=x)
    return [points[key] for key in sorted(points, key=lambda key: (panel.rows.index(key[0]), key[1]))]


def _own(experiment: Experiment, run: Run, parameter: str) -> Run:
    """Return ``run``, a point of a sweep; of a variant that trains what its plain row does, the plain row's.

    :raises ConfigError: what is swept would be a choice of tuning, whatever value the point is meant to stand for.
    """
    ids = (run.scale, run.protocol, run.split)
    search = tuning.search(experiment.catalog, *ids, run.algorithm)
    keys = tuning.open_keys(experiment.catalog, search, run.protocol, run.algorithm)
    for key in PARAMETERS[parameter].keys:
        if key in keys:
            raise ConfigError(
                f"config/figures: {run.algorithm} in {run.protocol}: {parameter} is swept, but {key} is under `tune:` "
                f"there, so that a point without a value of its own stands for whatever is chosen; give each point a "
                f"variant that sets {key}"
            )
    plain = run_specs.resolved(experiment, RunIds(*ids, run.algorithm.partition("~")[0], run.seed))
    return plain if {**run.description, "algorithm": plain.algorithm} == plain.description else run


def _label(label: str, run: Run) -> str:
    """Return a ``label`` with what ``run`` itself has of the parameters in its braces: ``K = {local_epochs:g}``."""
    wanted = [name for _, name, _, _ in string.Formatter().parse(label) if name]
    return label.format(**{name: _value(name, run) for name in wanted})


def _value(parameter: str, run: Run) -> float:
    """Return what a run has of a parameter that figures show; ConfigError where its algorithm has none of that name."""
    try:
        return PARAMETERS[parameter].value(run.description)
    except KeyError:
        known = [*run.description["update"]["params"], "local_epochs", "learning_rate_decay", "clients"]
        where = f"config/figures: {run.algorithm} in {run.protocol}"
        raise ConfigError(unknown("parameter", parameter, known, where)) from None
