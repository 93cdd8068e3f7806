"""The layout of a table, and the notes under tables and figures: what was trained, what the paper leaves open."""

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
    found, chosen = scales.table(experiment, scale, table, columns)
    document = found.settings
    metrics = {column.metric or row.settings["metric"]: None for column in chosen for row in found.entries.values()}
    first = next(iter(metrics))
    pairs = list(dict.fromkeys((one.protocol, one.split) for one in rows_trained(found, chosen)))
    return TableSpec(
        table=found.id,
        scale=scale,
        title=set_ups.retitled(catalog, scale, document["title"], pairs),
        paper=document.get("paper", ""),
        printed=found.reference is not None,
        unit=document.get("unit", chosen[0].unit),
        setting=set_ups.setting(catalog, scale, pairs),
        datasets=set_ups.datasets(experiment, scale, pairs),
        metric=document.get("quantity", METRICS[first].words),
        row_header=document.get("row_header", "Algorithm"),
        rows=list(found.entries.values()),
        columns=chosen,
        paper_targets={column.id: cell_specs.target(catalog, "paper", column) for column in chosen},
        notes=notes(experiment, scale, found, chosen),
        flags=experiment.errata.flags(found.reference) if found.reference else {},
    )


#: What the Hessian scaled by the weights is, and what the other one cannot show.
SCALED = (
    "Scaled: of diag(|w|) H diag(|w|). Longer filters ahead of normalisation, or with shorter ones after them, leave a "
    "model the same function, and H another matrix; this one they leave as it is. Where only H is smaller, the "
    "lengths of filters may be all that differs."
)


def notes(experiment: Experiment, scale: str, table: Table, columns: list[Column]) -> list[str]:
    """Return the lines under a table: its own, why nothing is printed, and what the paper leaves open (paper scale).

    Under a table that no printed numbers stand beside, nothing is said of papers.
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
        lines += choices(experiment.catalog, scale, algorithms, dict.fromkeys(one.protocol for one in runs))
    return lines


def rows_trained(table: Table, columns: list[Column]) -> list[TrainedRow]:
    """Return all that the rows of a table are trained in, in the order of its columns."""
    return [
        TrainedRow(column.protocol, table.trained_on[column.id, row.id][place], row.algorithm, row.label)
        for column in columns
        for place in range(len(column.splits))
        for row in table.entries.values()
    ]


def left_open(experiment: Experiment, scale: str, runs: Iterable[TrainedRow], without: Iterable[str] = ()) -> list[str]:
    """Return "what: how, and why" of every choice that a paper leaves open and that one of ``runs`` makes.

    A line of ``unstated:`` is about the algorithm whose id is its key, about the ``rows`` and ``splits`` that it names,
    or about all. ``without``: keys of lines that are not of what is shown.
    """
    said: dict[str, None] = {}
    for protocol in dict.fromkeys(one.protocol for one in runs):
        values = experiment.catalog.values(scale, protocol)
        settled = tuning.keys(values) if experiment.tune else set()
        for key, entry in values["unstated"].items():
            of = entry if isinstance(entry, dict) else {"says": entry}
            rows = of.get("rows", [key] if key in experiment.catalog.algorithms.declared else ["*"])
            makes = (
                one.protocol == protocol
                and settings.matching_any(rows, one.algorithm, one.algorithm.partition("~")[0])
                and settings.matching_any(of.get("splits", ["*"]), one.split)
                for one in runs
            )
            if key not in {*settled, *without} and any(makes):
                said[f"{key.replace('_', ' ')}: {of['says']}"] = None
    return list(said)


def of_rows(catalog: Catalog, rows: Iterable[str]) -> list[str]:
    """Return what config/algorithms.yaml notes of ``rows``, each once; a variant has its algorithm's note, too."""
    entries = catalog.algorithms
    names = (name for row in rows for name in (row.partition("~")[0], row))
    return list(dict.fromkeys(entries[name]["note"] for name in names if "note" in entries.get(name, {})))


def peers(table: Table, columns: list[Column]) -> list[str]:
    """Return a line for every metric in whose place rows without a server show another."""
    said: dict[str, None] = {}
    for column in (column for column in columns if column.decentralised_metric):
        rows = [row for row in table.entries.values() if tables.metric_of(column, row) == column.decentralised_metric]
        if labels := ", ".join(row.label for row in rows):
            words = [METRICS[name].words for name in (column.decentralised_metric, column.metric)]
            own, others = (text[0].lower() + text[1:] for text in words)
            line = f"{column.headers[-1]}: of rows without a server ({labels}), {own}; of the others, {others}."
            said[f"{line} They are two quantities, so none is marked as best."] = None
    return list(said)


def flatness(catalog: Catalog, scale: str, columns: list[Column], printed: bool) -> list[str]:
    """Return a line for every choice of loss and images that Hessians of a table's columns are of, and what they show.

    The second is said where the table has the scaled Hessian, too; whose choice it is, where numbers are ``printed``.
    """
    read = [column for column in columns if column.metric and METRICS[column.metric].source == "analysis"]
    said = of_hessians(catalog, scale, [column.protocol for column in read], printed)
    if any(curvature.METRICS[column.metric].scaled for column in read):
        said.append(SCALED)
    return said


def of_hessians(catalog: Catalog, scale: str, protocols: Iterable[str], printed: bool = True) -> list[str]:
    """Return a line for every choice of loss and images that Hessians in ``protocols`` are of.

    It says that papers name none of them where numbers of theirs are ``printed`` beside ours.
    """
    images = dict.fromkeys(analyses.settings(catalog, "hessian", scale, protocol)["images"] for protocol in protocols)
    what = "Hessian: of the mean cross-entropy at the final model, in eval mode, without weight decay and augmentation"
    where = "training images drawn by the run's seed, or on all if fewer" + "; the papers name none of these" * printed
    return [f"{what}, on {each:,} {where}." for each in images]


def of_tuning(experiment: Experiment, scale: str, runs: list[TrainedRow], printed: bool = True) -> list[str]:
    """Return the lines on what was to be tuned: what was chosen here, or that nothing was."""
    if experiment.tune:
        return choices_of_tuning(experiment, scale, runs)
    return untuned(experiment.catalog, scale, runs, printed)


def choices_of_tuning(experiment: Experiment, scale: str, runs: Iterable[TrainedRow]) -> list[str]:
    """Return a line for every set-up and key whose values were chosen on a validation part: what, and out of what."""
    catalog, found = experiment.catalog, []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        for key, value in tuning.chosen(catalog, experiment.places, RunIds(scale, protocol, split, row, 1)).items():
            tried = ", ".join(f"{each:.4g}" for each in search.grid[key])
            part = f"{100 * search.validation:g} % of every client's training images, seed {search.seed}"
            part += f"; {catalog.protocols[protocol].label}"
            found.append(((part, f"{key.replace('_', ' ')} out of {tried}"), (label, (f"{value:.4g}", search.split))))
    lines = []
    for (part, what), chosen in _grouped(found).items():
        splits = list(dict.fromkeys(split for _, (_, split) in chosen))
        one = len(splits) == 1
        said = []
        for label, values in _grouped(chosen).items():
            each = (value if one else f"{value} ({', '.join(at)})" for value, at in _grouped(values).items())
            said.append(f"{label} {', '.join(each)}")
        part += f", {splits[0]}" if one else ""
        lines.append(f"Tuned on a validation part ({part}), {what}: {'; '.join(said)}.")
    return lines


def untuned(catalog: Catalog, scale: str, runs: Iterable[TrainedRow], printed: bool) -> list[str]:
    """Return a line for what a paper tuned without saying what it chose, and for which one value is taken here.

    Where no numbers of a paper's are ``printed``, it says of what values none was chosen.
    """
    said = []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        training, parameters = catalog.hyperparameters(scale, protocol, row)
        name = catalog.label(row.partition("~")[0]) if "~" in row else label
        for key in tuning.open_keys(catalog, search, protocol, row):
            used = {**training, **parameters}[key]
            grid = catalog.values(scale, search.protocol)["tune"]["grids"][search.row][key]
            tried = ", ".join(f"{value:.4g}" for value in grid)
            line = f"{key.replace('_', ' ')} is {used:g}"
            line += f"; the paper tried {tried} and does not say what it chose" if printed else f", out of {tried}"
            said.append((line, name))
    return [f"Untuned, {', '.join(names)}: {line}." for line, names in _grouped(said).items()]


def choices(catalog: Catalog, scale: str, rows: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return a line for every choice for or against a paper or its code that the ``rows`` make in ``protocols``."""
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
    """Return the values of every key, each once, in the order in which they come."""
    found: dict[Key, dict[Value, None]] = {}
    for key, value in pairs:
        found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}


def is_said(choice: registry.Choice, value: str | int) -> bool:
    """Return whether tables say that ``value`` is chosen: where a paper and its code part; others' code, if taken."""
    return choice.parts and (not choice.shipped or value != choice.default)


def followed(name: str, value: str | int, choice: registry.Choice) -> str:
    """Say what the option ``value`` of the choice ``name`` follows, or what it does not."""
    said = str(value).replace("_", " ")
    if value in ("paper", "official_code"):
        return f"the {said} is followed in {name},"
    if value in choice.shipped:
        return f"{name} is that of {value}, not the paper's:"
    return f"{name} is {said!r}, not the {'paper' if 'paper' in choice.options else 'official code'}'s:"
