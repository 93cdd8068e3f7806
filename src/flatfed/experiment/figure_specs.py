"""The contents of a figure at a scale: its panels, its runs and the files that it reads."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flatfed.errors import ConfigError, unknown
from flatfed.experiment import analyses, measures, run_specs, scales, set_ups, table_specs, tuning
from flatfed.experiment import panels as specs
from flatfed.experiment.figures import PARAMETERS
from flatfed.experiment.model import Experiment, Figure, Panel, PanelEntry, Run, TrainedRow
from flatfed.experiment.panels import FigureSpec
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs.places import RunIds


def figure_spec(experiment: Experiment, scale: str, figure: str) -> FigureSpec:
    """Return the contents of a figure at a scale; ConfigError if there is none."""
    found, catalog = scales.figure(experiment, scale, figure), experiment.catalog
    document, kind = found.settings, KINDS[found.kind]
    drawn, inputs, compared = [], [], []
    runs: dict[str, Run] = {}
    for panel in found.panels:
        pairs = list(dict.fromkeys(pair for entry in panel.every(scale) for pair in entry.pairs))
        title = set_ups.on_data(catalog, scale, panel.title, pairs)
        content, files, panel_runs = PANELS[found.kind](experiment, scale, found, panel)
        drawn.append(specs.DrawnPanel(title=title, **content))
        inputs += files
        compared += [(title, run) for run in panel_runs]
        runs |= {run.path: run for run in panel_runs}
    if found.kind == "surface":
        analyses.hold_images(catalog, compared, document.get("set"), found.file)
    entries = [entry for panel in found.panels for entry in panel.every(scale)]
    pairs = found.pairs(scale)
    here = [
        set_ups.in_brief(catalog, scale, pairs, trained=kind.reads != "partitions"),
        set_ups.same_data(experiment, scale, found),
    ]
    measured = measures.defined(catalog, scale, found)
    if found.kind == "eigenvalues":
        measured += table_specs.of_hessians(catalog, scale, [run.protocol for run in runs.values()])
    rows = dict.fromkeys(run.algorithm for run in runs.values())
    trained = [
        TrainedRow(entry.protocol, split, row, catalog.label(row))
        for entry in entries
        for row, splits in entry.rows.items()
        for split in splits
    ]
    of_curves = {}
    if found.kind == "curves":
        of_curves = {"smooth": document["smooth"][scale], "across": document.get("across", "rounds")}
    inputs += [file for run in runs.values() for file in (run.partition, *run.files)]
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
        **of_curves,
        runs=runs,
        inputs=list(dict.fromkeys(inputs)),
        analysed=kind.reads == "analyses",
    )


def _not_shown(found: Figure) -> set[str]:
    """Return keys of ``unstated:`` whose lines are untrue of a figure: of seeds where it has one, of what it sweeps."""
    swept = {key for panel in found.panels if panel.parameter for key in PARAMETERS[panel.parameter].keys}
    return swept | ({"seeds", "spread"} if KINDS[found.kind].one_seed else set())


@dataclass(frozen=True)
class Shown:
    """A row in a panel: its label and its runs, seed by seed, those of a seed's several splits together."""

    row: str
    label: str
    runs: list[Run]

    @property
    def folders(self) -> list[str]:
        """The folders of its runs."""
        return [run.path for run in self.runs]


def _shown(experiment: Experiment, scale: str, found: Figure, entries: Iterable[PanelEntry]) -> list[Shown]:
    """Return the rows of ``entries`` with their runs, of the figure's seeds or of its one."""
    rows = []
    for entry in entries:
        seeds = run_specs.seeds(experiment, scale, entry.protocol, found.settings.get("seeds"))
        if KINDS[found.kind].one_seed:
            seeds = [found.settings.get("seed", seeds[0])]
        for row, splits in entry.rows.items():
            ids = [RunIds(scale, entry.protocol, split, row, seed) for seed in seeds for split in splits]
            runs = [run_specs.resolved(experiment, each) for each in ids]
            label = _label(entry.label, runs[0]) if entry.label else experiment.catalog.label(row)
            rows.append(Shown(row, label, runs))
    return rows


def _all_runs(rows: Iterable[Shown]) -> list[Run]:
    return [run for one in rows for run in one.runs]


#: Content of a panel for its specification, the files that it needs, and the runs that it shows.
Content = tuple[dict[str, Any], list[str], list[Run]]


def _curves(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a panel of lines: one a row, or one a series."""
    rows = _shown(experiment, scale, found, panel.shown(scale))
    series = []
    for one in rows:
        communications = found.settings.get("across") == "communications"
        steps = one.runs[0].description["update"]["params"].get("gossip_steps", 1) if communications else 1
        series.append(specs.CurveLine(algorithm=one.row, label=one.label, runs=one.folders, steps=steps))
    return {"metric": panel.metric, "marks": series}, [], _all_runs(rows)


def _sweep(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a panel of marks: a line a row, a point a value, a level line a row of ``levels``."""
    parameter = panel.parameter
    points: dict[str, dict[float, specs.SweepPoint]] = {row: {} for row in panel.rows}
    used: list[Run] = []
    for entry in panel.shown(scale):
        for row, variant in zip(panel.rows, _shown(experiment, scale, found, [entry]), strict=True):
            runs = [_own(experiment, run, parameter) for run in variant.runs]
            used += runs
            values = sorted({round(_value(parameter, run), 10) for run in runs})
            where = f"config/figures: {parameter} of {variant.row} in {entry.protocol} ({scale} scale)"
            if len(values) > 1:
                said = ", ".join(f"{value:g}" for value in values)
                raise ConfigError(f"{where}: the runs of one point have {said}; one value is wanted, set by a variant")
            if values[0] in points[row]:
                raise ConfigError(f"{where}: two points of {row} have {values[0]:g}; each value is wanted once")
            points[row][values[0]] = specs.SweepPoint(x=values[0], **_final(runs, len(entry.splits)))
    series = [
        specs.Series(
            algorithm=row, label=experiment.catalog.label(row), points=[of_row[x] for x in sorted(of_row)]
        )
        for row, of_row in points.items()
    ]
    levels = _shown(experiment, scale, found, [panel.levels]) if panel.levels else []
    content = {
        "axis": PARAMETERS[parameter].axis,
        "marks": series,
        "levels": [
            specs.Final(algorithm=one.row, label=one.label, **_final(one.runs, len(panel.levels.splits)))
            for one in levels
        ],
    }
    return content, [], [*used, *_all_runs(levels)]


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


def _bars(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a group of bars: one a row."""
    rows = _shown(experiment, scale, found, panel.entries)
    bars = [specs.Final(algorithm=one.row, label=one.label, **_final(one.runs, 1)) for one in rows]
    return {"marks": bars}, [], _all_runs(rows)


def _eigenvalues(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a group of bars of Hessians: one a row."""
    rows = _shown(experiment, scale, found, panel.entries)
    bars = [
        specs.HessianBar(
            algorithm=one.row, label=one.label, hessians=[run.hessian for run in one.runs], runs=one.folders
        )
        for one in rows
    ]
    return {"marks": bars}, [run.hessian for run in _all_runs(rows)], _all_runs(rows)


def _partitions(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a panel of one partition, or of several as a histogram."""
    seed = found.settings["seed"]
    files = [experiment.places.partition(scale, one.protocol, one.splits[0], seed) for one in panel.entries]
    deals = [specs.FileMark(label=one.label or "", file=file) for one, file in zip(panel.entries, files, strict=True)]
    return {"marks": deals}, files, []


def _surfaces(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a panel of surfaces: one model or two, each by its own filters and in a file of its own."""
    rows = _shown(experiment, scale, found, panel.shown(scale))
    runs = _all_runs(rows)
    files = [run.surface(found.settings.get("set")) for run in runs]
    surfaces = [
        specs.FileMark(label=one.label, file=file, runs=one.folders) for one, file in zip(rows, files, strict=True)
    ]
    return {"marks": surfaces}, files, runs


def _lines(experiment: Experiment, scale: str, found: Figure, panel: Panel) -> Content:
    """Return a panel of lines: from the model of the first row or series to that of each other."""
    start, *others = rows = _shown(experiment, scale, found, panel.shown(scale))
    lines = [
        specs.FileMark(
            label=f"{start.label} to {one.label}",
            file=start.runs[0].line(one.runs[0]),
            runs=[*start.folders, *one.folders],
        )
        for one in others
    ]
    return {"marks": lines}, [line.file for line in lines], _all_runs(rows)


#: Kind -> function that returns the content of a panel.
PANELS = {
    "eigenvalues": _eigenvalues,
    "surface": _surfaces,
    "line": _lines,
    "curves": _curves,
    "sweep": _sweep,
    "bars": _bars,
    "partition": _partitions,
    "histogram": _partitions,
}


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


def _final(runs: list[Run], splits: int) -> dict[str, Any]:
    """Return what a figure needs for a final number: the rounds of a finished run, and a list of folders per seed.

    ``splits``: how many of the runs are of one seed.
    """
    paths = [run.path for run in runs]
    return {
        "rounds": runs[0].description["rounds"],
        "runs": [paths[place : place + splits] for place in range(0, len(paths), splits)],
    }
