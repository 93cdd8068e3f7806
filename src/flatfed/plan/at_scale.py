"""Tables, figures and the report at a scale: their numbers, files and the documents behind their notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed.config.datasets import DatasetDocument
from flatfed.config.figure import Curves, Eigenvalues, Surface
from flatfed.config.protocol import Settings
from flatfed.config.request import TWO_COLUMNS
from flatfed.errors import ConfigError
from flatfed.plan import numbers, sweeps
from flatfed.plan.catalog import Catalog, SplitSettings
from flatfed.plan.experiment import Experiment
from flatfed.plan.figures import KINDS, Figure, Mark, Panel
from flatfed.plan.number import Number, runs_of
from flatfed.plan.reference import Printed
from flatfed.plan.tables import Table
from flatfed.runs.paths import Paths, RunIds, without_label
from flatfed.runs.run import HESSIAN, Run


@dataclass(frozen=True)
class SetUp:
    """The documents of a ``protocol`` and ``split`` at a scale.

    ``of_split``: the partition, client sampling and topology. ``manifest``: the dataset.json of the images on this
    machine. ``trained``: whether runs train on it; a figure of partitions reads no run.
    """

    protocol: str
    split: str
    settings: Settings
    of_split: SplitSettings
    dataset: DatasetDocument
    manifest: str
    trained: bool = True


@dataclass(frozen=True, kw_only=True)
class AtScale:
    """What a table and a figure have at a ``scale``.

    ``labels``: algorithm -> its name. ``row_notes``: the notes of config/algorithms.yaml on the rows and on the plain
    rows of variants, and the parameters that a preview changes. ``highlight``: the emphasised algorithm.
    """

    scale: str
    set_ups: Sequence[SetUp]
    labels: Mapping[str, str]
    row_notes: Sequence[str]
    highlight: str | None


@dataclass(frozen=True, kw_only=True)
class ShownTable(AtScale, Table):
    """A table at a scale, with its shown columns and the ``numbers`` of all its cells, row by row.

    ``seeds``: column -> the requested seeds. ``paper``: (column, row) -> printed number. ``declared_columns``: how many
    columns it has. ``errata``: those on the whole printed table, id -> text; ``flags``: those that its numbers cite.
    """

    numbers: Sequence[Number]
    seeds: Mapping[str, Sequence[int]]
    paper: Mapping[tuple[str, str], Printed]
    declared_columns: int
    errata: Mapping[str, str]
    flags: Mapping[str, str]


def table(
    experiment: Experiment, scale: str, name: str, columns: list[str] | None = None, row: str | None = None
) -> ShownTable:
    """Return a table, some of its ``columns`` or one ``row`` alone, at ``scale``; ConfigError for an unknown id."""
    layout = experiment.table_at(scale, name, columns)
    of_cells = numbers.numbers(experiment, scale, name, columns, row)
    if row:
        layout = replace(layout, rows={row: layout.rows[row]})
    order = list(layout.columns)
    column_by_column = sorted(of_cells, key=lambda number: order.index(number.column))
    runs = [run for number in column_by_column for run in (*number.runs, *filter(None, [number.timed]))]
    reference = layout.document.reference
    return ShownTable(
        **vars(layout),
        **_shared(experiment, scale, [(run.protocol, run.split) for run in runs], layout.rows),
        labels={row.algorithm: row.label for row in layout.rows.values()},
        numbers=of_cells,
        seeds={id_: sorted({part.seed for part in of_cells if part.column == id_} - {None}) for id_ in order},
        paper=numbers.paper(experiment, layout),
        declared_columns=len(experiment.tables[name].columns),
        errata=experiment.errata.of_table(reference) if layout.printed else {},
        flags=experiment.errata.flags(reference) if layout.printed else {},
    )


@dataclass(frozen=True, kw_only=True)
class ShownFigure(AtScale, Figure):
    """A figure at a scale. ``width``: inches."""

    width: float = TWO_COLUMNS

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
    labels = {run.algorithm: catalog.label(run.algorithm) for mark in layout.marks for run in mark.runs}
    pairs = [pair for mark in layout.marks for pair in mark.pairs]
    return ShownFigure(
        **vars(layout),
        **_shared(experiment, scale, pairs, labels, trained=KINDS[layout.kind].reads != "partitions"),
        labels=labels,
        width=layout.document.width or request.width,
    )


def _shared(
    experiment: Experiment, scale: str, pairs: Iterable[tuple[str, str]], rows: Iterable[str], *, trained: bool = True
) -> dict[str, Any]:
    """Return the fields of :class:`AtScale` without labels; ``pairs``: (protocol, split) of trainings or partitions."""
    catalog, entries = experiment.catalog, experiment.catalog.algorithms
    set_ups = []
    for protocol, split in dict.fromkeys(pairs):
        settings, of_split = catalog.settings(scale, protocol), catalog.split_settings(scale, protocol, split)
        data = catalog.dataset(scale, protocol), experiment.paths.manifest(settings.dataset)
        set_ups.append(SetUp(protocol, split, settings, of_split, *data, trained))
    ids = (name for row in rows for name in (without_label(row), row) if name in entries)
    notes = list(dict.fromkeys(filter(None, (entries[name].note for name in ids))))
    protocols = {set_up.protocol: set_up.settings.algorithms for set_up in set_ups if set_up.trained}
    notes += _own_parameters(catalog, scale, protocols, rows)
    notes += _changed_parameters(catalog, scale, protocols, rows)
    return {"scale": scale, "set_ups": set_ups, "row_notes": notes, "highlight": experiment.request.highlight}


def _own_parameters(
    catalog: Catalog, scale: str, protocols: Mapping[str, Iterable[str]], rows: Iterable[str]
) -> list[str]:
    """Return the note on the parameters of ``rows`` without values in ``protocols``, id -> algorithms with values."""
    texts: dict[str, None] = {}
    for protocol, declared in protocols.items():
        for row in rows:
            _, values = catalog.hyperparameters(scale, protocol, row)
            left = {key: value for key, value in values.items() if key not in (catalog.algorithms[row].set or ())}
            if left and not {row, without_label(row)} & set(declared):
                listed = ", ".join(f"{key} = {value}" for key, value in left.items())
                texts[f"{catalog.label(row)}: {listed}"] = None
    return [f"Parameters of the algorithms, because the set-up has none for them. {'; '.join(texts)}."] if texts else []


def _changed_parameters(catalog: Catalog, scale: str, protocols: Iterable[str], rows: Iterable[str]) -> list[str]:
    """Return the notes on the parameters of ``rows`` that differ between ``scale`` and the paper scale."""
    texts: dict[str, list[str]] = {}
    for protocol in protocols:
        changes = []
        for row in rows:
            (_, here), (_, printed) = (catalog.hyperparameters(at, protocol, row) for at in (scale, "paper"))
            keys = (key for key, value in printed.items() if here[key] != value)
            changes += [f"{catalog.label(row)}: {key} = {here[key]} (paper scale: {printed[key]})" for key in keys]
        texts.setdefault("; ".join(changes), []).append(protocol)
    notes = {text: " and ".join(names) for text, names in texts.items() if text}
    return [f"Parameters of the preview of {names} alone. {text}." for text, names in notes.items()]


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
    about = {"table": figure.id, "column": panel.title, "row": row, "scale": scale}
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
