"""What there is at a scale.

A protocol without ``preview:`` has the paper scale alone, and so has all that shows it; a table may name its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flatfed.errors import ConfigError
from flatfed.experiment.model import Asked, Table
from flatfed.runs.places import SCALES

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


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


def has_table(experiment: Experiment, scale: str, table: str) -> bool:
    """Return whether there is a ``table`` at ``scale``."""
    return not _table_lacking(experiment, scale, table, None)


def refuse_table(experiment: Experiment, scale: str, table: str, columns: list[str] | None) -> None:
    """Raise a ConfigError where there is no ``table`` at ``scale``, or not these of its columns."""
    if scale in SCALES and (said := _table_lacking(experiment, scale, table, columns)):
        raise ConfigError(said)


def refuse(experiment: Experiment, scale: str, protocols: Iterable[str], target: str) -> None:
    """Raise a ConfigError where one of ``protocols`` has no ``scale``; ``target`` is the path under it asked for."""
    if scale in SCALES and (said := _lacking(experiment, scale, protocols, target)):
        raise ConfigError(said)


def _table_lacking(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> str:
    """Return why table ``name``, or some of its columns, is not to be had at ``scale``; "" where it is."""
    table, target = experiment.tables[name], f"tables/{name}.md"
    only = table.settings.get("scales", SCALES)
    if scale not in only:
        results = experiment.places.results
        return (
            f"{results}/{scale}/{target}: {table.file} has `scales: [{', '.join(only)}]`, so that there is none; ask "
            f"for {results}/{only[0]}/{target}"
        )
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
    results = experiment.places.results
    return f"{results}/{scale}/{target}: {has} no `{scale}:`, so that there is none; ask for {results}/paper/{target}"
