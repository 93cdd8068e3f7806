"""config/config.yaml: what is asked for, and where data come from on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed import schemas, strict_yaml
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import cell_specs, figure_specs, known, scales, settings, tuning
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.known import Entries
from flatfed.experiment.model import Asked, AskedTable, Figure, Table
from flatfed.experiment.tuning import Search

#: The configuration can come from the file, the command line or both; messages say so.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"


def check(config: Any, where: str = WHERE) -> None:
    """Refuse a configuration, from ``where``, with a wrong key, type or value; ConfigError says which."""
    strict_yaml.check(config, where)
    schemas.validate(config, "config", where)


def check_file(path: Path) -> None:
    """Refuse a config.yaml at ``path``, where there is one, that cannot be read or has a wrong key, type or value."""
    if path.exists():
        check(strict_yaml.read(path, FILE), FILE)


def tables(config: dict[str, Any], there: Entries[Table]) -> list[AskedTable]:
    """Return the tables asked for and their columns, in the tables' own order; None for those of a refused table.

    :raises ConfigError: no such table or column, or a table is asked for twice.
    """
    chosen: dict[str, list[str] | None] = {}
    for place, entry in enumerate(config["tables"]):
        where = f"{WHERE}: tables[{place}]"
        name, patterns = (entry, ["*"]) if isinstance(entry, str) else (entry["table"], entry["columns"])
        known.check("table", name, there.declared, where)
        if name in chosen:
            raise ConfigError(f"{where}: table {name!r} is given twice; one entry holds all its columns")
        if name not in there:
            chosen[name] = None
            continue
        columns = there[name].columns
        for pattern in patterns:
            if not settings.matching(pattern, columns):
                raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
        chosen[name] = [id_ for id_ in columns if settings.matching_any(patterns, id_)]
    return list(chosen.items())


def with_columns(experiment: Experiment, names: Iterable[str]) -> list[tuple[str, list[str] | None]]:
    """Return tables that are asked for by name, with the columns that config.yaml names of them; None: all."""
    chosen = dict(experiment.asked.tables)
    return [(name, chosen.get(name)) for name in names]


def scale_of(experiment: Experiment, names: Iterable[str]) -> str:
    """Return the configuration's scale, or "paper" where none of the tables ``names`` has that one."""
    asked = Asked([(name, None) for name in names if name in experiment.tables], [])
    there = scales.there(experiment, experiment.scale, asked)
    return experiment.scale if there.tables or not asked.tables else "paper"


def figures(config: dict[str, Any], there: Entries[Figure]) -> list[str]:
    """Return the figures asked for; ConfigError if there is no such figure."""
    for place, name in enumerate(config["figures"]):
        known.check("figure", name, there.declared, f"{WHERE}: figures[{place}]")
    return list(config["figures"])


def counted(config: dict[str, Any], datasets: Entries[dict[str, Any]]) -> Entries[dict[str, Any]]:
    """Return ``datasets`` with the numbers of images that sources of ``data:`` declare in place of the entries' own.

    ``declared_images`` is the number that the entry itself declares.
    """
    own = {name: source.get("images", {}) for name, source in config.get("data", {}).items()}
    return datasets.resolved(
        lambda name, entry: {**entry, "declared_images": entry["train"] + entry["test"], **own.get(name, {})}
    )


def searches(experiment: Experiment, scale: str, asked: Asked) -> list[Search]:
    """Return the searches whose choices the runs of tables and figures ``asked`` for take, each once."""
    untuned = replace(experiment, config={**experiment.config, "tune": False})
    cells = [cell for table in asked.tables for cell in cell_specs.cells(untuned, scale, *table)]
    figures = [figure_specs.figure_spec(untuned, scale, name) for name in asked.figures]
    runs = [run for cell in cells for run in (*cell.runs, *cell.timed)]
    runs += [run for figure in figures for run in figure.runs.values()]
    return tuning.searches_of(experiment.catalog, experiment.places, runs)
