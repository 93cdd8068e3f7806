"""What there is at a scale.

A protocol without ``preview:`` has the paper scale alone, and so has all that shows it; a table may name its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flatfed.errors import ConfigError
from flatfed.experiment.model import SCALES, Table
from flatfed.papers import significance

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment

#: A table and the ids of its columns, None for all.
Asked = tuple[str, list[str] | None]


def of_table(table: Table, columns: Iterable[str] | None = None) -> list[str]:
    """Return the protocols of a table, or of some of its columns."""
    of_columns = [table.columns[name].protocol for name in columns or table.columns]
    of_rows = [row.settings.get("protocol") for row in table.entries.values()]
    return list(dict.fromkeys(filter(None, [*of_columns, *of_rows])))


def tables(experiment: Experiment, scale: str, asked: Iterable[Asked]) -> list[Asked]:
    """Return those of the tables ``asked`` for that there are at ``scale``."""
    return [each for each in asked if not _lacking(experiment, scale, *each)]


def figures(experiment: Experiment, scale: str, asked: Iterable[str]) -> list[str]:
    """Return those of the figures ``asked`` for that there are at ``scale``."""
    return [name for name in asked if not _without(experiment, scale, experiment.figures[name].protocols)]


def every(experiment: Experiment, scale: str) -> tuple[list[Asked], list[str]]:
    """Return all tables and figures that there are at ``scale``."""
    asked = [(name, None) for name in experiment.tables]
    return tables(experiment, scale, asked), figures(experiment, scale, experiment.figures)


def left_out(experiment: Experiment, scale: str, asked: Iterable[Asked], shown: Iterable[str]) -> list[str]:
    """Return a line for each of the tables ``asked`` for and figures ``shown`` that is not there at ``scale``."""
    shown = list(shown)
    lines = [said for each in asked if (said := _lacking(experiment, scale, *each))]
    there = set(figures(experiment, scale, shown))
    lines += [
        _explanation(experiment, f"figures/{name}.png", experiment.figures[name].protocols, scale)
        for name in shown
        if name not in there
    ]
    return [f"Left out: {line}" for line in lines]


def refuse_table(experiment: Experiment, scale: str, table: str, columns: list[str] | None) -> None:
    """Raise a ConfigError where there is no ``table`` at ``scale``, or not these of its columns."""
    if scale in SCALES and (said := _lacking(experiment, scale, table, columns)):
        raise ConfigError(said)


def refuse(experiment: Experiment, scale: str, protocols: Iterable[str], target: str) -> None:
    """Raise a ConfigError where one of ``protocols`` has no ``scale``; ``target`` is the path under it asked for."""
    if scale in SCALES and _without(experiment, scale, protocols):
        raise ConfigError(_explanation(experiment, target, protocols, scale))


def _lacking(experiment: Experiment, scale: str, name: str, columns: list[str] | None) -> str:
    """Return why table ``name``, or some of its columns, is not to be had at ``scale``; "" where it is."""
    table, target = experiment.tables[name], f"tables/{name}.md"
    only = table.settings.get("scales", SCALES)
    if scale not in only:
        results = experiment.places.results
        return (
            f"{results}/{scale}/{target}: {table.file} has `scales: [{', '.join(only)}]`, so that there is none; ask "
            f"for {results}/{only[0]}/{target}"
        )
    protocols = of_table(table, columns)
    if _without(experiment, scale, protocols):
        return _explanation(experiment, target, protocols, scale)
    return _seeds_lacking(experiment, scale, table, protocols) if table.settings.get("kind") == "effects" else ""


def _seeds_lacking(experiment: Experiment, scale: str, table: Table, protocols: Iterable[str]) -> str:
    """Return why the seeds are too few for the tests of a table of effects, or not the same; "" where they will do."""
    where = f"{experiment.places.results}/{scale}/tables/{table.id}.md: {table.file}"
    own = [tuple(experiment.seeds(scale, protocol, table.settings.get("seeds"))) for protocol in protocols]
    if len(set(own)) > 1:
        seeds = " and ".join(str(list(each)) for each in dict.fromkeys(own))
        return f"{where}: its protocols have different seeds ({seeds}); they do not pair: say `seeds`"
    tests, least = len(table.entries), significance.least_seeds(len(table.entries))
    if len(own[0]) >= least:
        return ""
    return (
        f"{where}: with {len(own[0])} seeds none of {tests} choices could be told from chance at "
        f"{100 * significance.LEVEL:g} %; wanted: at least {least} (`seeds`)"
    )


def _without(experiment: Experiment, scale: str, protocols: Iterable[str]) -> list[str]:
    return [name for name in protocols if scale not in experiment.catalog.protocols[name].scales]


def _explanation(experiment: Experiment, target: str, protocols: Iterable[str], scale: str) -> str:
    """Say why ``target`` is not to be had at ``scale``, and what to ask for in its place."""
    names = _without(experiment, scale, protocols)
    where = " and ".join(f"{name} ({experiment.catalog.protocols[name].file})" for name in names)
    has = "protocol {} has" if len(names) == 1 else "protocols {} have"
    return (
        f"{experiment.places.results}/{scale}/{target}: {has.format(where)} no `{scale}:`, so that there is none; ask "
        f"for {experiment.places.results}/paper/{target}"
    )
