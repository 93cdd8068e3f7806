"""Tables, figures and the report at a scale: their numbers, files and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flatfed.config.figure import Curves, Eigenvalues, Surface
from flatfed.config.request import TWO_COLUMNS
from flatfed.errors import ConfigError
from flatfed.plan import footnotes, numbers, set_ups, sweeps
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.plan.figures import KINDS, PROBED_LOSS, PROBES, Figure, Mark, Panel
from flatfed.plan.number import Number, runs_of
from flatfed.plan.set_ups import DatasetSpec
from flatfed.plan.tables import Table
from flatfed.runs.paths import Paths, RunIds, without_label
from flatfed.runs.run import HESSIAN, Run


@dataclass(frozen=True, kw_only=True)
class ShownTable(Table):
    """A table at a scale, with its shown columns and the ``numbers`` of all its cells, row by row.

    ``title``: with the scale, if it is not that of the paper. ``setting``: the set-up, with ``{name}`` for each of the
    ``datasets``. ``flags``: the errata that the reference file cites. ``seeds``: column -> its requested seeds.
    """

    scale: str
    title: str
    setting: str
    datasets: Mapping[str, DatasetSpec]
    notes: Sequence[str]
    flags: Mapping[str, str]
    numbers: Sequence[Number]
    highlight: str | None
    seeds: Mapping[str, Sequence[int]]


def table(experiment: Experiment, scale: str, name: str, columns: list[str] | None = None) -> ShownTable:
    """Return a table, or some of its columns, at ``scale``; ConfigError for an unknown id."""
    catalog, layout = experiment.catalog, experiment.table_at(scale, name, columns)
    of_cells = numbers.numbers(experiment, scale, name, columns)
    order = list(layout.columns)
    column_by_column = sorted(of_cells, key=lambda number: order.index(number.column))
    runs = [run for number in column_by_column for run in (*number.runs, *filter(None, [number.timed]))]
    pairs = list(dict.fromkeys((run.protocol, run.split) for run in runs))
    return ShownTable(
        **vars(layout),
        scale=scale,
        title=set_ups.title(catalog, scale, layout, pairs),
        setting=set_ups.setting(catalog, scale, pairs),
        datasets=set_ups.datasets(experiment, scale, pairs),
        notes=footnotes.of_table(experiment, layout, len(experiment.tables[name].columns), runs),
        flags=experiment.errata.flags(layout.document.reference) if layout.printed else {},
        numbers=of_cells,
        highlight=experiment.request.highlight,
        seeds={name: sorted({part.seed for part in of_cells if part.column == name} - {None}) for name in order},
    )


@dataclass(frozen=True, kw_only=True)
class ShownFigure(Figure):
    """A figure at a scale.

    ``title``: with the scale, if it is not that of the paper. ``unstated``: lines on choices that the paper does not
    state. ``width``: inches.
    """

    scale: str
    title: str
    setting: str = ""
    caption: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    unstated: Sequence[str] = ()
    highlight: str | None
    width: float = TWO_COLUMNS

    @property
    def analysed(self) -> bool:
        """Whether the figure reads Hessians or loss surfaces."""
        return KINDS[self.kind].reads == "analyses"

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


def figure(experiment: Experiment, scale: str, name: str) -> ShownFigure:
    """Return a figure at ``scale``; ConfigError if it does not exist."""
    layout, catalog, request = experiment.figure_at(scale, name), experiment.catalog, experiment.request
    panels = [_at_scale(experiment, scale, layout, panel) for panel in layout.panels]
    layout = replace(layout, panels=panels)
    runs = [run for mark in layout.marks for run in mark.runs]
    pairs = list(dict.fromkeys(pair for mark in layout.marks for pair in mark.pairs))
    trained, printed = KINDS[layout.kind].reads != "partitions", scale == "paper"
    labels = {run.algorithm: catalog.label(run.algorithm) for run in runs}
    texts = [*filter(None, [layout.document.caption]), *_definitions(catalog, scale, layout)]
    texts += footnotes.hessian_notes(catalog, runs if layout.kind == "eigenvalues" else (), printed)
    texts += footnotes.training_notes(runs, labels)
    return ShownFigure(
        **vars(layout),
        scale=scale,
        title=set_ups.title(catalog, scale, layout, pairs, trained),
        setting=set_ups.setting(catalog, scale, pairs, trained),
        caption=" ".join([*texts, *footnotes.row_notes(catalog, labels)]),
        datasets=set_ups.datasets(experiment, scale, pairs),
        unstated=footnotes.unstated(experiment, runs) if printed else [],
        highlight=request.highlight,
        width=layout.document.width or request.width,
    )


@dataclass(frozen=True)
class ShownReport:
    """The report, and the ``paths`` of its files.

    ``left_out`` has a line for every requested table and figure that the scale does not have.
    """

    scale: str
    tables: list[ShownTable]
    figures: list[ShownFigure]
    configuration: dict[str, Any]
    left_out: list[str]
    paths: Paths

    @property
    def runs(self) -> list[Run]:
        """The runs of all tables and figures."""
        tabled = runs_of(number for table in self.tables for number in table.numbers)
        drawn = {path: run for figure in self.figures for path, run in figure.runs.items()}
        return list((tabled | drawn).values())


def report(experiment: Experiment, scale: str) -> ShownReport:
    """Return the report on the requested tables and figures at ``scale``."""
    shown = experiment.existing(scale, experiment.requested)
    return ShownReport(
        scale,
        [table(experiment, scale, name, columns) for name, columns in shown.tables.items()],
        [figure(experiment, scale, name) for name in shown.figures],
        experiment.request.as_written(),
        experiment.left_out(scale, experiment.requested),
        experiment.paths,
    )


def _definitions(catalog: Catalog, scale: str, figure: Figure) -> list[str]:
    """Return the definitions of a figure's probe measures and of their loss."""
    panels = [panel for panel in figure.panels if panel.metric in PROBES]
    probes = [(panel, vars(catalog.settings(scale, mark.protocol).probe)) for panel in panels for mark in panel.marks]
    definitions = [PROBES[panel.metric].definition.format(**probe) for panel, probe in probes]
    return list(dict.fromkeys([*definitions, *(PROBED_LOSS.format(**probe) for _, probe in probes)]))


def _at_scale(experiment: Experiment, scale: str, figure: Figure, panel: Panel) -> Panel:
    """Return a ``panel`` with the marks of a scale; those of a sweep line by line, from left to right, then levels."""
    shown = [mark for mark in panel.marks if scale in mark.scales]
    marks = [_mark(experiment, scale, figure, panel, mark) for mark in shown]
    points: dict[tuple[str, float], Mark] = {}
    for mark in (mark for mark in marks if mark.line):
        if points.setdefault((mark.line, mark.x), mark).runs != mark.runs:
            where = f"config/figures: {panel.parameter} of {mark.line} in {mark.protocol} ({scale} scale)"
            raise ConfigError(f"{where}: two points of {mark.line} have {mark.x:g}; give each value once")
    levels = [mark for mark in marks if not mark.line]
    names = [*{mark.line: mark.label for mark in points.values()}.values(), *(mark.label for mark in levels)]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        problem = f"{twice!r} names two rows or series at {scale} scale; give each its own `label`"
        raise ConfigError(f"config/figures: {figure.id}: {panel.title}: {problem}")
    lines = list(dict.fromkeys(line for line, _ in points))
    ordered = sorted(points, key=lambda key: (lines.index(key[0]), key[1]))
    return replace(panel, marks=[*map(points.get, ordered), *levels])


def _mark(experiment: Experiment, scale: str, figure: Figure, panel: Panel, mark: Mark) -> Mark:
    """Return a ``mark`` with the numbers and files of a scale; a sweep's point has the look of its line."""
    document, protocol, kind = figure.document, mark.protocol, KINDS[figure.kind]
    if kind.reads == "partitions":
        return replace(mark, files=[experiment.paths.partition(scale, protocol, mark.splits[0], document.seed)])
    settings, row = experiment.catalog.settings(scale, protocol), mark.line or mark.algorithm
    seeds = experiment.seeds(scale, protocol, getattr(document, "seeds", None))
    seeds = [document.seed or seeds[0]] if isinstance(document, Surface) else seeds
    ids = [[RunIds(scale, protocol, split, mark.algorithm, seed) for split in mark.splits] for seed in seeds]
    if mark.line:
        ids = [[_plain(experiment, of_run) for of_run in of_seed] for of_seed in ids]
    first = experiment.resolved(ids[0][0])
    analysis = HESSIAN if isinstance(document, Eigenvalues) else ""
    if isinstance(document, Surface):
        analysis = Path(first.surface(document.set)).name
    about = {"table": figure.id, "column": panel.title, "row": row, "scale": scale, "unit": "number"}
    about |= {"metric": panel.metric or "", "rounds": settings.rounds, "window": settings.evaluation.window}
    runs = [tuple(experiment.shown(of_run, analysis) for of_run in of_seed) for of_seed in ids]
    numbers = [Number(**about, seed=of_seed[0].seed, runs=of_seed) for of_seed in runs]
    shown = replace(mark, algorithm=row, numbers=numbers)
    others = {run.config.precision for run in shown.runs if run.config.protocol != run.protocol}
    label = sweeps.label(mark.label, first) if mark.label else experiment.catalog.label(row)
    communications = isinstance(document, Curves) and document.across == "communications"
    return replace(
        shown,
        label=" ".join([label, *(f"({name})" for name in sorted(others))]),
        files=[f"{run.analysis_folder}/{analysis}" for run in shown.runs] if analysis else (),
        x=_swept_value(panel.parameter, shown) if mark.line else 0.0,
        steps=first.config.update.params.get("gossip_steps", 1) if communications else 1,
    )


def _plain(experiment: Experiment, ids: RunIds) -> RunIds:
    """Return the ids of a sweep's run, or those of the plain row's run if both train the same."""
    run, plain = (experiment.resolved(of_run) for of_run in (ids, replace(ids, algorithm=without_label(ids.algorithm))))
    return plain.ids if run.config.model_copy(update={"algorithm": plain.algorithm}) == plain.config else ids


def _swept_value(parameter: str, mark: Mark) -> float:
    value, *others = sorted({round(sweeps.value(parameter, run), 10) for run in mark.runs})
    if others:
        where = f"config/figures: {parameter} of {mark.algorithm} in {mark.protocol} ({mark.numbers[0].scale} scale)"
        values = ", ".join(f"{number:g}" for number in (value, *others))
        raise ConfigError(f"{where}: the runs of one point have {values}; set one value with `values`")
    return value
