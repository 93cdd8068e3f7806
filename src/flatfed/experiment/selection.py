"""The requests of config/config.yaml."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.config import strict_yaml
from flatfed.config.datasets import Dataset, LocalDataset
from flatfed.config.request import REQUEST
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import figure_specs, lookup, numbers, protocols, scales, tuning
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figures import Figure
from flatfed.experiment.lookup import Entries
from flatfed.experiment.model import Requested, RequestedTable
from flatfed.experiment.tables import Table
from flatfed.experiment.tuning import Search

#: Locations of the configuration in messages.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"


def check(config: Any, where: str = WHERE) -> None:
    """Raise a ConfigError for a wrong key, type or value of a configuration."""
    strict_yaml.check(config, where)
    REQUEST.check(config, where)


def check_file(path: Path) -> None:
    """Check the config.yaml at ``path``, if it exists."""
    if path.exists():
        check(strict_yaml.read(path, FILE), FILE)


def tables(config: dict[str, Any], entries: Entries[Table]) -> list[RequestedTable]:
    """Return the requested tables and their columns; None for the columns of an invalid table.

    :raises ConfigError: a table or column does not exist, or a table is requested twice.
    """
    chosen: dict[str, list[str] | None] = {}
    for index, entry in enumerate(config["tables"]):
        where = f"{WHERE}: tables[{index}]"
        name, patterns = (entry, ["*"]) if isinstance(entry, str) else (entry["table"], entry["columns"])
        lookup.check("table", name, entries.declared, where)
        if name in chosen:
            raise ConfigError(f"{where}: table {name!r} is given twice; put all its columns into one entry")
        if name not in entries:
            chosen[name] = None
            continue
        columns = entries[name].columns
        for pattern in patterns:
            if not fnmatch.filter(columns, pattern):
                raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
        chosen[name] = [id_ for id_ in columns if protocols.matching_any(patterns, id_)]
    return list(chosen.items())


def with_columns(experiment: Experiment, names: Iterable[str]) -> list[tuple[str, list[str] | None]]:
    """Return the tables ``names`` with their requested columns, None for all."""
    chosen = dict(experiment.requested.tables)
    return [(name, chosen.get(name)) for name in names]


def scale_of(experiment: Experiment, names: Iterable[str]) -> str:
    """Return the requested scale, or "paper" if none of the tables ``names`` exists at it."""
    requested = Requested([(name, None) for name in names if name in experiment.tables], [])
    existing = scales.existing(experiment, experiment.scale, requested)
    return experiment.scale if existing.tables or not requested.tables else "paper"


def figures(config: dict[str, Any], entries: Entries[Figure]) -> list[str]:
    """Return the requested figures; ConfigError if a figure does not exist."""
    for index, name in enumerate(config["figures"]):
        lookup.check("figure", name, entries.declared, f"{WHERE}: figures[{index}]")
    return list(config["figures"])


def counted(config: dict[str, Any], datasets: Entries[Dataset]) -> Entries[LocalDataset]:
    """Return ``datasets`` with the image counts of ``data:``; ``declared_images`` is the declared number."""
    counts = {name: source.get("images", {}) for name, source in config.get("data", {}).items()}
    return datasets.resolved(
        lambda name, entry: LocalDataset.model_construct(
            **{**vars(entry), "declared_images": entry.train + entry.test, **counts.get(name, {})}
        )
    )


def searches(experiment: Experiment, scale: str, requested: Requested) -> list[Search]:
    """Return the searches that the runs of ``requested`` tables and figures need."""
    untuned = replace(experiment, config={**experiment.config, "tune": False})
    tabled = [number for table in requested.tables for number in numbers.numbers(untuned, scale, *table)]
    figures = [figure_specs.figure_spec(untuned, scale, name) for name in requested.figures]
    runs = [run for number in tabled for run in (*number.all_runs, *number.all_timed)]
    runs += [run for figure in figures for run in figure.runs.values()]
    needed = {}
    for protocol, split, row in dict.fromkeys((run.protocol, run.split, run.algorithm) for run in runs):
        search = tuning.search(experiment.catalog, scale, protocol, split, row)
        if tuning.open_keys(experiment.catalog, search, protocol, row):
            needed[search.folder(experiment.paths)] = search
    return list(needed.values())
