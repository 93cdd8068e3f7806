"""The layout of a table, and the notes under tables and figures: trainings, and choices that papers do not state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TypeVar

from flatfed import algorithms as registry
from flatfed.experiment import analyses, cell_specs, scales, set_ups, settings, tables, tuning
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import Column, Table, TableSpec, TrainedRow
from flatfed.papers.metrics import METRICS
from flatfed.runs import curvature
from flatfed.runs.places import RunIds

Key, Value = TypeVar("Key"), TypeVar("Value")


def table_spec(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> TableSpec:
    """Return the layout of a table, or of some of its columns: rows, columns, titles and notes.

    :raises ConfigError: no such scale, table or column.
    """
    catalog = experiment.catalog
    layout, chosen = scales.table(experiment, scale, table, columns)
    document = layout.settings
    metrics = {column.metric or row.settings["metric"]: None for column in chosen for row in layout.entries.values()}
    first = next(iter(metrics))
    pairs = list(dict.fromkeys((training.protocol, training.split) for training in rows_trained(layout, chosen)))
    return TableSpec(
        table=layout.id,
        scale=scale,
        title=set_ups.retitled(catalog, scale, document["title"], pairs),
        paper=document.get("paper", ""),
        printed=layout.reference is not None,
        unit=document.get("unit", chosen[0].unit),
        setting=set_ups.setting(catalog, scale, pairs),
        datasets=set_ups.datasets(experiment, scale, pairs),
        metric=document.get("quantity", METRICS[first].words),
        row_header=document.get("row_header", "Algorithm"),
        rows=list(layout.entries.values()),
        columns=chosen,
        paper_targets={column.id: cell_specs.target(catalog, "paper", column) for column in chosen},
        notes=notes(experiment, scale, layout, chosen),
        flags=experiment.errata.flags(layout.reference) if layout.reference else {},
    )


#: Definition of the Hessian scaled by the weights, and the weakness of the unscaled Hessian.
SCALED = (
    "Scaled: of diag(|w|) H diag(|w|). Longer filters ahead of normalisation, or with shorter ones after them, leave a "
    "model the same function, and H another matrix; this one they leave as it is. Where only H is smaller, the "
    "lengths of filters may be all that differs."
)


def notes(experiment: Experiment, scale: str, table: Table, columns: list[Column]) -> list[str]:
    """Return the lines under a table: its notes, a reason for missing printed numbers, and choices not in the paper.

    A table without printed numbers has no lines about papers.
    """
    lines = [*of_rows(experiment.catalog, table.entries), *table.settings.get("notes", [])]
    if len(columns) < len(table.columns):
        shown = f"{len(columns)} of its {len(table.columns)} columns"
        lines.insert(0, f"Shown: {shown}, those that the configuration names.")
    if table.reference is not None:
        lines += experiment.errata.notes(table.reference)
    elif "reason" in table.settings:
        lines.append(f"Nothing printed to compare with: {table.settings['reason']}.")
    lines += peers(table, columns)
    lines += flatness(experiment.catalog, scale, columns, table.reference is not None)
    runs = rows_trained(table, columns)
    lines += of_tuning(experiment, scale, runs, table.reference is not None)
    if scale == "paper" and table.reference is not None:
        lines += [f"Not stated by the paper, {line}." for line in left_open(experiment, scale, runs)]
        algorithms = [row.algorithm for row in table.entries.values() if row.algorithm]
        lines += choices(experiment.catalog, scale, algorithms, dict.fromkeys(training.protocol for training in runs))
    return lines


def rows_trained(table: Table, columns: list[Column]) -> list[TrainedRow]:
    """Return the trainings of the rows of a table, in the order of its columns."""
    return [
        TrainedRow(column.protocol, table.trained_on[column.id, row.id][index], row.algorithm, row.label)
        for column in columns
        for index in range(len(column.splits))
        for row in table.entries.values()
    ]


def left_open(experiment: Experiment, scale: str, runs: Iterable[TrainedRow], without: Iterable[str] = ()) -> list[str]:
    """Return "key: value, and reason" of every choice that a paper does not state and that one of ``runs`` makes.

    A line of ``unstated:`` applies to the algorithm whose id is its key, to the ``rows`` and ``splits`` that it lists,
    or to all. ``without``: keys of excluded lines.
    """
    lines: dict[str, None] = {}
    for protocol in dict.fromkeys(training.protocol for training in runs):
        values = experiment.catalog.values(scale, protocol)
        tuned = tuning.keys(values) if experiment.tune else set()
        for key, entry in values["unstated"].items():
            line = entry if isinstance(entry, dict) else {"says": entry}
            rows = line.get("rows", [key] if key in experiment.catalog.algorithms.declared else ["*"])
            applies = (
                training.protocol == protocol
                and settings.matching_any(rows, training.algorithm, training.algorithm.partition("~")[0])
                and settings.matching_any(line.get("splits", ["*"]), training.split)
                for training in runs
            )
            if key not in {*tuned, *without} and any(applies):
                lines[f"{key.replace('_', ' ')}: {line['says']}"] = None
    return list(lines)


def of_rows(catalog: Catalog, rows: Iterable[str]) -> list[str]:
    """Return the notes on ``rows`` in config/algorithms.yaml, each once; a variant also has its algorithm's note."""
    entries = catalog.algorithms
    names = (name for row in rows for name in (row.partition("~")[0], row))
    return list(dict.fromkeys(entries[name]["note"] for name in names if "note" in entries.get(name, {})))


def peers(table: Table, columns: list[Column]) -> list[str]:
    """Return a line for every column in which rows without a server show another metric."""
    lines: dict[str, None] = {}
    for column in (column for column in columns if column.decentralised_metric):
        rows = [row for row in table.entries.values() if tables.metric_of(column, row) == column.decentralised_metric]
        if labels := ", ".join(row.label for row in rows):
            words = [METRICS[name].words for name in (column.decentralised_metric, column.metric)]
            peer, main = (text[0].lower() + text[1:] for text in words)
            line = f"{column.headers[-1]}: of rows without a server ({labels}), {peer}; of the others, {main}."
            lines[f"{line} They are two quantities, so none is marked as best."] = None
    return list(lines)


def flatness(catalog: Catalog, scale: str, columns: list[Column], printed: bool) -> list[str]:
    """Return a line for every loss and image set of the Hessians in a table's columns, and on the scaled Hessian.

    ``printed``: whether the table shows a paper's numbers.
    """
    analysed = [column for column in columns if column.metric and METRICS[column.metric].source == "analysis"]
    lines = of_hessians(catalog, scale, [column.protocol for column in analysed], printed)
    if any(curvature.METRICS[column.metric].scaled for column in analysed):
        lines.append(SCALED)
    return lines


def of_hessians(catalog: Catalog, scale: str, protocols: Iterable[str], printed: bool = True) -> list[str]:
    """Return a line for every loss and image set of the Hessians in ``protocols``.

    ``printed``: add that the papers do not state them.
    """
    images = dict.fromkeys(analyses.settings(catalog, "hessian", scale, protocol)["images"] for protocol in protocols)
    loss = "Hessian: of the mean cross-entropy at the final model, in eval mode, without weight decay and augmentation"
    subset = "training images drawn by the run's seed, or on all if fewer" + "; the papers name none of these" * printed
    return [f"{loss}, on {count:,} {subset}." for count in images]


def of_tuning(experiment: Experiment, scale: str, runs: list[TrainedRow], printed: bool = True) -> list[str]:
    """Return the lines on tuned hyper-parameters: the choices made, or the untuned values."""
    if experiment.tune:
        return choices_of_tuning(experiment, scale, runs)
    return untuned(experiment.catalog, scale, runs, printed)


def choices_of_tuning(experiment: Experiment, scale: str, runs: Iterable[TrainedRow]) -> list[str]:
    """Return a line for every set-up and key with tuned values: the chosen values and the grid."""
    catalog, tuned = experiment.catalog, []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        for key, value in tuning.chosen(catalog, experiment.places, RunIds(scale, protocol, split, row, 1)).items():
            tried = ", ".join(f"{number:.4g}" for number in search.grid[key])
            part = f"{100 * search.validation:g} % of every client's training images, seed {search.seed}"
            part += f"; {catalog.protocols[protocol].label}"
            tuned.append(((part, f"{key.replace('_', ' ')} out of {tried}"), (label, (f"{value:.4g}", search.split))))
    lines = []
    for (part, key_and_grid), chosen in _grouped(tuned).items():
        splits = list(dict.fromkeys(split for _, (_, split) in chosen))
        single = len(splits) == 1
        texts = []
        for label, values in _grouped(chosen).items():
            shown = (value if single else f"{value} ({', '.join(at)})" for value, at in _grouped(values).items())
            texts.append(f"{label} {', '.join(shown)}")
        part += f", {splits[0]}" if single else ""
        lines.append(f"Tuned on a validation part ({part}), {key_and_grid}: {'; '.join(texts)}.")
    return lines


def untuned(catalog: Catalog, scale: str, runs: Iterable[TrainedRow], printed: bool) -> list[str]:
    """Return a line for every untuned value that a paper tuned without stating its choice.

    ``printed``: whether the table shows the paper's numbers.
    """
    values = []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        training, parameters = catalog.hyperparameters(scale, protocol, row)
        name = catalog.label(row.partition("~")[0]) if "~" in row else label
        for key in tuning.open_keys(catalog, search, protocol, row):
            number = {**training, **parameters}[key]
            grid = catalog.values(scale, search.protocol)["tune"]["grids"][search.row][key]
            tried = ", ".join(f"{value:.4g}" for value in grid)
            line = f"{key.replace('_', ' ')} is {number:g}"
            line += f"; the paper tried {tried} and does not say what it chose" if printed else f", out of {tried}"
            values.append((line, name))
    return [f"Untuned, {', '.join(names)}: {line}." for line, names in _grouped(values).items()]


def choices(catalog: Catalog, scale: str, rows: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return a line for every choice between a paper and its code that the ``rows`` make in ``protocols``."""
    made = []
    for protocol, row in itertools.product(dict.fromkeys(protocols), rows):
        _, parameters = catalog.hyperparameters(scale, protocol, row)
        for name, declared in registry.load(row.partition("~")[0]).parameters().items():
            if isinstance(declared, registry.Choice) and is_said(declared, parameters[name]):
                reason = f" ({declared.reason})" if declared.reason and parameters[name] == declared.default else ""
                line = f"{followed(name, parameters[name], declared)} {declared.doc}{reason}."
                made.append(((name, line), catalog.label(row)))
    return [f"{', '.join(labels)}: {line}" for (_, line), labels in _grouped(made).items()]


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return key -> its values in order, without duplicates."""
    groups: dict[Key, dict[Value, None]] = {}
    for key, value in pairs:
        groups.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in groups.items()}


def is_said(choice: registry.Choice, value: str | int) -> bool:
    """Return whether tables report ``value``: sources differ and, with options of other code, it is no default."""
    return choice.concerns_paper and (not choice.public_code or value != choice.default)


def followed(name: str, value: str | int, choice: registry.Choice) -> str:
    """Return which source the option ``value`` of the choice ``name`` follows, or does not follow."""
    option = str(value).replace("_", " ")
    if value in ("paper", "official_code"):
        return f"the {option} is followed in {name},"
    if value in choice.public_code:
        return f"{name} is that of {value}, not the paper's:"
    return f"{name} is {option!r}, not the {'paper' if 'paper' in choice.options else 'official code'}'s:"
