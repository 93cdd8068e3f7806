"""The lines under tables and figures on choices that a paper leaves open, and definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from flatfed import algorithms as registry
from flatfed.config.protocol import Open
from flatfed.plan import protocols
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.plan.metrics import METRICS
from flatfed.plan.tables import Table
from flatfed.runs import curvature
from flatfed.runs.paths import without_label
from flatfed.runs.run import Run

Key = TypeVar("Key")

#: Why tables show the Hessian scaled by the weights.
SCALED = (
    "Scaled: of diag(|w|) H diag(|w|). It does not change if filters ahead of normalisation become longer, which "
    "changes H but not the model's function. Models that differ in H alone may differ only in the lengths of filters."
)


def of_table(experiment: Experiment, table: Table, columns: int, runs: Sequence[Run]) -> list[str]:
    """Return the lines under a ``table`` of ``runs``; one without printed numbers has no lines about papers.

    ``columns``: the number of its declared columns.
    """
    lines: list[str] = [*row_notes(experiment.catalog, table.rows), *table.document.notes]
    lines += _remarks(table)
    shown = table.columns.values()
    if len(shown) < columns:
        lines.insert(0, f"Shown: {len(shown)} of its {columns} columns, those that the configuration names.")
    if table.printed:
        lines += experiment.errata.notes(table.document.reference)
    elif table.document.reason:
        lines.append(f"Nothing printed to compare with: {table.document.reason}.")
    lines += _peer_notes(table)
    analysed = [column.metric for column in shown if column.metric and METRICS[column.metric].source == "analysis"]
    lines += hessian_notes(experiment.catalog, runs if analysed else (), table.printed)
    if any(curvature.METRICS[metric].scaled for metric in analysed):
        lines.append(SCALED)
    labels = {row.algorithm: row.label for row in table.rows.values()}
    lines += training_notes(runs, labels)
    if table.printed and runs and runs[0].scale == "paper":
        lines += [f"Not stated by the paper, {line}." for line in unstated(experiment, runs)]
        lines += _choice_notes(experiment.catalog, runs, labels)
    return lines


def unstated(experiment: Experiment, runs: Sequence[Run]) -> list[str]:
    """Return "key: value, and reason" of every choice of ``runs`` that their paper does not state.

    An entry of ``unstated:`` applies to the ``rows`` and ``splits`` that it lists, to the algorithm that is its key, or
    to all.
    """
    lines: dict[str, None] = {}
    for protocol, scale in dict.fromkeys((run.protocol, run.scale) for run in runs):
        settings = experiment.catalog.settings(scale, protocol)
        for key, entry in settings.unstated.items():
            line = Open(says=entry) if isinstance(entry, str) else entry
            rows = line.rows or ([key] if key in experiment.catalog.algorithms.declared else ["*"])
            applies = (
                run.protocol == protocol
                and protocols.matching_any(rows, run.algorithm, without_label(run.algorithm))
                and protocols.matching_any(line.splits or ["*"], run.split)
                for run in runs
            )
            if any(applies):
                lines[f"{key.replace('_', ' ')}: {line.says}"] = None
    return list(lines)


def row_notes(catalog: Catalog, rows: Iterable[str]) -> list[str]:
    """Return the notes of config/algorithms.yaml on ``rows`` and on the plain rows of variants."""
    entries = catalog.algorithms
    names = (name for row in rows for name in (without_label(row), row))
    return list(dict.fromkeys(entries[name].note for name in names if name in entries and entries[name].note))


def _remarks(table: Table) -> list[str]:
    """Return a line per declaration without effect in a user's file of an algorithm."""
    rows = ((row.label, without_label(row.algorithm)) for row in table.rows.values() if row.algorithm)
    own = [(remark, label) for label, name in rows if registry.own_file(name) for remark in registry.remarks(name)]
    return [f"{', '.join(labels)}: {remark}." for remark, labels in _grouped(own).items()]


def _peer_notes(table: Table) -> list[str]:
    """Return a line for every column in which decentralised rows show another metric."""
    lines: dict[str, None] = {}
    for column in (column for column in table.columns.values() if column.peer_metric):
        rows = [row for row in table.rows.values() if column.metric_of(row) == column.peer_metric]
        if labels := ", ".join(row.label for row in rows):
            words = [METRICS[name].words for name in (column.peer_metric, column.metric)]
            peer, main = (text[0].lower() + text[1:] for text in words)
            line = f"{column.headers[-1]}: of rows without a server ({labels}), {peer}; of the others, {main}."
            lines[f"{line} They are two quantities, so none is marked as best."] = None
    return list(lines)


def hessian_notes(catalog: Catalog, runs: Iterable[Run], printed: bool = True) -> list[str]:
    """Return a line for every image set of the Hessians of ``runs``; ``printed``: papers do not state them."""
    settings = (catalog.analysis_settings("hessian", run.scale, run.protocol) for run in runs)
    images = dict.fromkeys(of_protocol["images"] for of_protocol in settings)
    loss = "Hessian: of the mean cross-entropy at the final model, in eval mode, without weight decay and augmentation"
    subset = "training images drawn at random, or on all if fewer"
    if printed:
        subset += "; the papers name none of these"
    return [f"{loss}, on {count:,} {subset}." for count in images]


def training_notes(runs: Iterable[Run], labels: Mapping[str, str]) -> list[str]:
    """Return the lines on schedules of the learning rate, momentum, label smoothing and local steps of ``runs``."""
    lines = []
    for run in {run.row: run for run in runs}.values():
        config, parts = run.config, []
        if schedule := config.learning_rate_schedule:
            if schedule.kind == "cosine":
                shape = f"falls to {schedule.final_learning_rate} along a cosine over all rounds"
            else:
                shape = f"is multiplied by {schedule.factor} after {' and '.join(map(str, schedule.milestones))} rounds"
            parts.append(f"the learning rate {shape}")
        if config.momentum:
            own = " on top of the algorithm's own" * registry.load(config.update.name).own_momentum
            parts.append(f"momentum {config.momentum}{own}, zero at the start of a client's round")
        if config.label_smoothing:
            smoothed = "also in train_loss; evaluations, Hessians and surfaces have none"
            parts.append(f"label smoothing {config.label_smoothing} ({smoothed})")
        if config.local_epochs is None:
            parts.append(f"{config.local_steps} local steps a round in place of epochs")
        lines += [("; ".join(parts), labels[run.algorithm])] if parts else []
    return [f"Local training of {', '.join(names)}: {text}." for text, names in _grouped(lines).items()]


def _choice_notes(catalog: Catalog, runs: Iterable[Run], labels: Mapping[str, str]) -> list[str]:
    """Return the lines on choices between a paper and its code."""
    made = []
    for protocol, scale in dict.fromkeys((run.protocol, run.scale) for run in runs):
        for row in filter(None, labels):
            _, parameters = catalog.hyperparameters(scale, protocol, row)
            for name, choice in registry.load(without_label(row)).parameters().items():
                if not isinstance(choice, registry.Choice) or not choice.concerns_paper:
                    continue
                default = parameters[name] == choice.default
                # Choices with options of other code are reported if they are not the default.
                if not (choice.public_code and default):
                    reason = f" ({choice.reason})" if choice.reason and default else ""
                    line = f"{source_followed(name, parameters[name], choice)} {choice.doc}{reason}."
                    made.append(((name, line), catalog.label(row)))
    return [f"{', '.join(labels)}: {line}" for (_, line), labels in _grouped(made).items()]


def _grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, list[str]]:
    """Return key -> its different values."""
    groups: dict[Key, dict[str, None]] = {}
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
