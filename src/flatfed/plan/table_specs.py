"""The layouts of tables, and the notes under tables and figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from flatfed import algorithms as registry
from flatfed.config.protocol import Open
from flatfed.plan import numbers, protocols, run_specs, set_ups, tuning
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number
from flatfed.plan.set_ups import DatasetSpec
from flatfed.plan.tables import Column, Row, Table, TrainedRow
from flatfed.runs import curvature
from flatfed.runs.paths import RunIds

Key, Value = TypeVar("Key"), TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The layout of a table at a scale.

    ``prefix``: the text before ``title``. ``paper``: the number of the printed table. ``printed``: whether the table
    shows paper numbers. ``setting``: the set-up, with ``{name}`` for each of the ``datasets``. ``metric``: the
    quantity, without ``unit``. ``paper_targets``: column id -> printed target as a fraction. ``flags``: the errata that
    the reference file cites. ``numbers``: those of all its cells, row by row.
    """

    table: str
    scale: str
    title: str
    metric: str
    unit: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    prefix: str = ""
    paper: str = ""
    printed: bool = True
    setting: str = ""
    datasets: Mapping[str, DatasetSpec] = field(default_factory=dict)
    row_header: str = "Algorithm"
    paper_targets: Mapping[str, float | None] = field(default_factory=dict)
    notes: Sequence[str] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    numbers: Sequence[Number] = ()


def table_spec(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> TableSpec:
    """Return the layout of a table, or of some of its columns; ConfigError for an unknown id."""
    catalog = experiment.catalog
    layout, chosen = experiment.table_at(scale, table, columns)
    document, rows = layout.document, list(layout.rows.values())
    pairs = list(dict.fromkeys((training.protocol, training.split) for training in layout.trained(chosen)))
    return TableSpec(
        table=layout.id,
        scale=scale,
        prefix=set_ups.prefix(catalog, scale, pairs),
        title=document.title,
        paper=document.paper or "",
        printed=layout.printed,
        unit=document.unit or chosen[0].unit,
        setting=set_ups.setting(catalog, scale, pairs),
        datasets=set_ups.datasets(experiment, scale, pairs),
        metric=document.quantity or METRICS[chosen[0].metric or rows[0].entry.metric].words,
        row_header=document.row_header,
        rows=rows,
        columns=chosen,
        paper_targets={column.id: numbers.target(catalog, "paper", column) for column in chosen},
        notes=notes(experiment, scale, layout, chosen),
        flags=experiment.errata.flags(document.reference) if layout.printed else {},
        numbers=numbers.numbers(experiment, scale, table, columns),
    )


#: Why tables show the Hessian scaled by the weights.
SCALED = (
    "Scaled: of diag(|w|) H diag(|w|). It does not change if filters ahead of normalisation become longer, which "
    "changes H but not the model's function. Models that differ in H alone may differ only in the lengths of filters."
)


def notes(experiment: Experiment, scale: str, table: Table, columns: list[Column]) -> list[str]:
    """Return the lines under a table; one without printed numbers has no lines about papers."""
    lines = [*row_notes(experiment.catalog, table.rows), *table.document.notes]
    if len(columns) < len(table.columns):
        shown = f"{len(columns)} of its {len(table.columns)} columns"
        lines.insert(0, f"Shown: {shown}, those that the configuration names.")
    if table.printed:
        lines += experiment.errata.notes(table.document.reference)
    elif table.document.reason:
        lines.append(f"Nothing printed to compare with: {table.document.reason}.")
    lines += peer_notes(table, columns)
    analysed = [column for column in columns if column.metric and METRICS[column.metric].source == "analysis"]
    protocols = [column.protocol for column in analysed]
    lines += hessian_notes(experiment.catalog, scale, protocols, table.printed)
    if any(curvature.METRICS[column.metric].scaled for column in analysed):
        lines.append(SCALED)
    runs = table.trained(columns)
    lines += tuning_notes(experiment, scale, runs, table.printed)
    if scale == "paper" and table.printed:
        lines += [f"Not stated by the paper, {line}." for line in unstated(experiment, scale, runs)]
        algorithms = [row.algorithm for row in table.rows.values() if row.algorithm]
        lines += choice_notes(experiment.catalog, scale, algorithms, [training.protocol for training in runs])
    return lines


def unstated(experiment: Experiment, scale: str, runs: Iterable[TrainedRow], without: Iterable[str] = ()) -> list[str]:
    """Return "key: value, and reason" of every choice of ``runs`` that their paper does not state.

    An entry of ``unstated:`` applies to the ``rows`` and ``splits`` that it lists, to the algorithm that is its key, or
    to all. ``without``: excluded keys.
    """
    lines: dict[str, None] = {}
    for protocol in dict.fromkeys(training.protocol for training in runs):
        settings = experiment.catalog.settings(scale, protocol)
        tuned = tuning.keys(settings) if experiment.request.tune else set()
        for key, entry in settings.unstated.items():
            line = Open(says=entry) if isinstance(entry, str) else entry
            rows = line.rows or ([key] if key in experiment.catalog.algorithms.declared else ["*"])
            applies = (
                training.protocol == protocol
                and protocols.matching_any(rows, training.algorithm, training.algorithm.partition("~")[0])
                and protocols.matching_any(line.splits or ["*"], training.split)
                for training in runs
            )
            if key not in {*tuned, *without} and any(applies):
                lines[f"{key.replace('_', ' ')}: {line.says}"] = None
    return list(lines)


def row_notes(catalog: Catalog, rows: Iterable[str]) -> list[str]:
    """Return the notes of config/algorithms.yaml on ``rows`` and on the plain rows of variants."""
    entries = catalog.algorithms
    names = (name for row in rows for name in (row.partition("~")[0], row))
    return list(dict.fromkeys(entries[name].note for name in names if name in entries and entries[name].note))


def peer_notes(table: Table, columns: list[Column]) -> list[str]:
    """Return a line for every column in which decentralised rows show another metric."""
    lines: dict[str, None] = {}
    for column in (column for column in columns if column.peer_metric):
        rows = [row for row in table.rows.values() if column.metric_of(row) == column.peer_metric]
        if labels := ", ".join(row.label for row in rows):
            words = [METRICS[name].words for name in (column.peer_metric, column.metric)]
            peer, main = (text[0].lower() + text[1:] for text in words)
            line = f"{column.headers[-1]}: of rows without a server ({labels}), {peer}; of the others, {main}."
            lines[f"{line} They are two quantities, so none is marked as best."] = None
    return list(lines)


def hessian_notes(catalog: Catalog, scale: str, protocols: Iterable[str], printed: bool = True) -> list[str]:
    """Return a line for every image set of the Hessians in ``protocols``; ``printed``: papers do not state them."""
    settings = (run_specs.analysis_settings(catalog, "hessian", scale, protocol) for protocol in protocols)
    images = dict.fromkeys(of_protocol["images"] for of_protocol in settings)
    loss = "Hessian: of the mean cross-entropy at the final model, in eval mode, without weight decay and augmentation"
    subset = "training images drawn by the run's seed, or on all if fewer" + "; the papers name none of these" * printed
    return [f"{loss}, on {count:,} {subset}." for count in images]


def tuning_notes(experiment: Experiment, scale: str, runs: list[TrainedRow], printed: bool = True) -> list[str]:
    """Return the lines on tuned or untuned hyper-parameters."""
    if experiment.request.tune:
        return chosen_values(experiment, scale, runs)
    return untuned_notes(experiment.catalog, scale, runs, printed)


def chosen_values(experiment: Experiment, scale: str, runs: Iterable[TrainedRow]) -> list[str]:
    catalog, tuned = experiment.catalog, []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        for key, value in tuning.chosen(catalog, experiment.paths, RunIds(scale, protocol, split, row, 1)).items():
            tried = ", ".join(f"{number:.4g}" for number in search.grid[key])
            part = f"{100 * search.validation:g} % of every client's training images, seed {search.seed}"
            set_up = f"{part}; {catalog.settings(scale, protocol).label}, {search.split}"
            tuned.append(((set_up, f"{key.replace('_', ' ')} out of {tried}"), f"{label} {value:.4g}"))
    return [
        f"Tuned on a validation part ({set_up}), {key_and_grid}: {'; '.join(values)}."
        for (set_up, key_and_grid), values in _grouped(tuned).items()
    ]


def untuned_notes(catalog: Catalog, scale: str, runs: Iterable[TrainedRow], printed: bool) -> list[str]:
    values = []
    for protocol, split, row, label in dict.fromkeys(runs):
        search = tuning.search(catalog, scale, protocol, split, row)
        training, parameters = catalog.hyperparameters(scale, protocol, row)
        name = catalog.label(row.partition("~")[0]) if "~" in row else label
        for key in tuning.open_keys(catalog, search, protocol, row):
            number = {**training, **parameters}[key]
            tried = ", ".join(f"{value:.4g}" for value in search.grid[key])
            line = f"{key.replace('_', ' ')} is {number:g}"
            line += f"; the paper tried {tried} and does not state its choice" if printed else f", out of {tried}"
            values.append((line, name))
    return [f"Untuned, {', '.join(names)}: {line}." for line, names in _grouped(values).items()]


def choice_notes(catalog: Catalog, scale: str, rows: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return the lines on choices between a paper and its code."""
    made = []
    for protocol, row in itertools.product(dict.fromkeys(protocols), rows):
        _, parameters = catalog.hyperparameters(scale, protocol, row)
        for name, choice in registry.load(row.partition("~")[0]).parameters().items():
            default = parameters[name] == choice.default
            # Choices with options of other code are reported if they are not the default.
            if isinstance(choice, registry.Choice) and choice.concerns_paper and not (choice.public_code and default):
                reason = f" ({choice.reason})" if choice.reason and default else ""
                line = f"{source_followed(name, parameters[name], choice)} {choice.doc}{reason}."
                made.append(((name, line), catalog.label(row)))
    return [f"{', '.join(labels)}: {line}" for (_, line), labels in _grouped(made).items()]


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    groups: dict[Key, dict[Value, None]] = {}
    for key, value in pairs:
        groups.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in groups.items()}


def source_followed(name: str, value: str | int, choice: registry.Choice) -> str:
    """Return which source the ``value`` of the choice ``name`` follows."""
    option = str(value).replace("_", " ")
    if value in ("paper", "official_code"):
        return f"the {option} is followed in {name},"
    if value in choice.public_code:
        return f"{name} is that of {value}, not the paper's:"
    return f"{name} is {option!r}, not the {'paper' if 'paper' in choice.options else 'official code'}'s:"
