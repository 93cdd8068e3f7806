"""The protocols, tables and figures that exist at a scale; without ``preview:``, the paper scale alone."""

from __future__ import annotations

from collections.abc import Iterable

from flatfed.config.protocol import Settings
from flatfed.errors import ConfigError
from flatfed.experiment import lookup
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figures import Figure
from flatfed.experiment.model import Requested
from flatfed.experiment.tables import Column, Table
from flatfed.runs.paths import SCALES


def settings(experiment: Experiment, scale: str, protocol: str, target: str = "") -> Settings:
    """Return all settings of ``protocol`` at ``scale``; ConfigError, with ``target``, if one does not exist."""
    declared = lookup.entry("protocol", protocol, experiment.catalog.protocols, "config/protocols")
    _refuse(scale, _why_none(experiment, scale, [protocol], target or f"runs/{protocol}"))
    return lookup.entry("scale", scale, declared.scales, "results")


def table(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> tuple[Table, list[Column]]:
    """Return table ``name`` and its ``columns`` (None: all); ConfigError if one does not exist at this scale."""
    lookup.check("scale", scale, SCALES, "results")
    layout = lookup.entry("table", name, experiment.tables, "config/tables")
    chosen = [lookup.entry("column", column, layout.columns, f"table {name}") for column in columns or layout.columns]
    _refuse(scale, _why_no_table(experiment, scale, name, columns))
    return layout, chosen


def figure(experiment: Experiment, scale: str, name: str) -> Figure:
    """Return figure ``name``; ConfigError if it does not exist at this scale."""
    lookup.check("scale", scale, SCALES, "results")
    layout = lookup.entry("figure", name, experiment.figures, "config/figures")
    _refuse(scale, _why_no_figure(experiment, scale, name))
    return layout


def existing(experiment: Experiment, scale: str, requested: Requested) -> Requested:
    """Return the ``requested`` tables and figures that exist at ``scale``."""
    tables = [entry for entry in requested.tables if not _why_no_table(experiment, scale, *entry)]
    return Requested(tables, [name for name in requested.figures if not _why_no_figure(experiment, scale, name)])


def all_at(experiment: Experiment, scale: str) -> Requested:
    """Return all tables and figures of ``scale``; ConfigError for a mistake in any file."""
    experiment.check()
    return existing(experiment, scale, experiment.everything)


def left_out(experiment: Experiment, scale: str, requested: Requested) -> list[str]:
    """Return a line for each ``requested`` table and figure that does not exist at ``scale``."""
    reasons = [_why_no_table(experiment, scale, *entry) for entry in requested.tables]
    reasons += [_why_no_figure(experiment, scale, name) for name in requested.figures]
    return [f"Left out: {line}" for line in reasons if line]


def _refuse(scale: str, reason: str) -> None:
    if scale in SCALES and reason:
        raise ConfigError(reason)


def _why_no_table(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> str:
    table, target = experiment.tables[name], f"tables/{name}.md"
    only = table.document.scales or SCALES
    if scale not in only:
        return _instead(experiment, scale, target, f"{table.file} has `scales: [{', '.join(only)}]`", only[0])
    shown = [table.columns[column] for column in columns or table.columns]
    return _why_none(experiment, scale, table.protocols(shown), target)


def _why_no_figure(experiment: Experiment, scale: str, name: str) -> str:
    return _why_none(experiment, scale, experiment.figures[name].protocols, f"figures/{name}.png")


def _why_none(experiment: Experiment, scale: str, protocols: Iterable[str], target: str) -> str:
    declared = (experiment.catalog.protocols[name] for name in protocols)
    where = [f"{protocol.id} ({protocol.file})" for protocol in declared if scale not in protocol.scales]
    if not where:
        return ""
    has = f"protocol {where[0]} has" if len(where) == 1 else f"protocols {' and '.join(where)} have"
    return _instead(experiment, scale, target, f"{has} no `{scale}:`", "paper")


def _instead(experiment: Experiment, scale: str, target: str, why: str, other: str) -> str:
    results = experiment.paths.results
    return f"{results}/{scale}/{target}: {why}, so it does not exist; request {results}/{other}/{target}"
