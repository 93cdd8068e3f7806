"""What there is at a scale.

A protocol without ``preview:`` has the paper scale alone, and so has all that shows it; a table may name its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flatfed.errors import ConfigError
from flatfed.experiment import known
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import Asked, Column, Figure, Table
from flatfed.runs.places import SCALES


def values(experiment: Experiment, scale: str, protocol: str, target: str = "") -> dict[str, Any]:
    """Return all settings of ``protocol`` at ``scale``.

    :raises ConfigError: either does not exist, for the ``target`` of that scale's folder.
    """
    declared = known.look_up("protocol", protocol, experiment.catalog.protocols, "config/protocols")
    _refuse(scale, _lacking(experiment, scale, [protocol], target or f"runs/{protocol}"))
    return known.look_up("scale", scale, declared.scales, "results")


def table(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> tuple[Table, list[Column]]:
    """Return table ``name`` and those of its columns with the ids ``columns``, None for all.

    :raises ConfigError: there is no such table or column, or not at this scale.
    """
    known.check("scale", scale, SCALES, "results")
    found = known.look_up("table", name, experiment.tables, "config/tables")
    chosen = [known.look_up("column", column, found.columns, f"table {name}") for column in columns or found.columns]
    _refuse(scale, _table_lacking(experiment, scale, name, columns))
    return found, chosen


def figure(experiment: Experiment, scale: str, name: str) -> Figure:
    """Return figure ``name``; ConfigError if there is none, or not at this scale."""
    known.check("scale", scale, SCALES, "results")
    found = known.look_up("figure", name, experiment.figures, "config/figures")
    _refuse(scale, _figure_lacking(experiment, scale, name))
    return found


def of_table(table: Table, columns: Iterable[str] | None = None) -> list[str]:
    """Return the protocols of a table, or of some of its columns."""
    of_columns = [table.columns[name].protocol for name in columns or table.columns]
    of_rows = [row.settings.get("protocol") for row in table.entries.values()]
    return list(dict.fromkeys(filter(None, [*of_columns, *of_rows])))


def there(experiment: Experiment, scale: str, asked: Asked) -> Asked:
    """Return what there is at ``scale`` of what was ``asked`` for."""
    tables = [each for each in asked.tables if not _table_lacking(experiment, scale, *each)]
    return Asked(tables, [name for name in asked.figures if not _figure_lacking(experiment, scale, name)])


def every(experiment: Experiment, scale: str) -> Asked:
    """Return all tables and figures that there are at ``scale``; ConfigError for a mistake in any file."""
    experiment.check()
    return there(experiment, scale, experiment.everything)


def left_out(experiment: Experiment, scale: str, asked: Asked) -> list[str]:
    """Return a line for each table and figure ``asked`` for that is not there at ``scale``."""
    said = [_table_lacking(experiment, scale, *each) for each in asked.tables]
    said += [_figure_lacking(experiment, scale, name) for name in asked.figures]
    return [f"Left out: {line}" for line in said if line]


def _refuse(scale: str, lacking: str) -> None:
    """Raise a ConfigError where something is ``lacking`` at a scale that exists."""
    if scale in SCALES and lacking:
        raise ConfigError(lacking)


def _table_lacking(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> str:
    """Return why table ``name``, or some of its columns, is not to be had at ``scale``; "" where it is."""
    table, target = experiment.tables[name], f"tables/{name}.md"
    only = table.settings.get("scales", SCALES)
    if scale not in only:
        return _instead(experiment, scale, target, f"{table.file} has `scales: [{', '.join(only)}]`", only[0])
    return _lacking(experiment, scale, of_table(table, columns), target)


def _figure_lacking(experiment: Experiment, scale: str, name: str) -> str:
    """Return why figure ``name`` is not to be had at ``scale``; "" where it is."""
    return _lacking(experiment, scale, experiment.figures[name].protocols, f"figures/{name}.png")


def _lacking(experiment: Experiment, scale: str, protocols: Iterable[str], target: str) -> str:
    """Return why ``target``, which is of ``protocols``, is not to be had at ``scale``; "" where it is."""
    declared = (experiment.catalog.protocols[name] for name in protocols)
    where = [f"{protocol.id} ({protocol.file})" for protocol in declared if scale not in protocol.scales]
    if not where:
        return ""
    has = f"protocol {where[0]} has" if len(where) == 1 else f"protocols {' and '.join(where)} have"
    return _instead(experiment, scale, target, f"{has} no `{scale}:`", "paper")


def _instead(experiment: Experiment, scale: str, target: str, why: str, other: str) -> str:
    """Say ``why`` there is no ``target`` at a scale, and which one to ask for: that of the ``other`` scale."""
    results = experiment.places.results
    return f"{results}/{scale}/{target}: {why}, so that there is none; ask for {results}/{other}/{target}"
