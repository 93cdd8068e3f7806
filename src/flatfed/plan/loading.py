"""Loading of config/ into an :class:`Experiment`."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed import algorithms, models
from flatfed.config import strict_yaml
from flatfed.config.datasets import DatasetDocument, LocalDataset
from flatfed.config.request import REQUEST, Request
from flatfed.errors import ConfigError, unknown
from flatfed.plan import catalog as catalogs
from flatfed.plan import figures, lookup, protocols, published, reference, tables, tuning
from flatfed.plan.experiment import Experiment, Requested
from flatfed.plan.figures import Figure
from flatfed.plan.lookup import Entries
from flatfed.plan.tables import Table
from flatfed.runs.paths import DEFAULT, Paths
from flatfed.user_files import CALLBACKS, kind_of

#: Locations of the configuration in messages.
FILE = "config/config.yaml"
WHERE = f"{FILE} or --config"


def load(root: str | Path, config: dict[str, Any] | None = None, paths: Paths = DEFAULT) -> Experiment:
    """Return the experiment of ``root``/config; ``config``: config.yaml with the command line (None: the file alone).

    Entries whose data are missing raise an error when they are used, and in :meth:`Experiment.check`.

    :raises ConfigError: all mistakes in the files, or a mistake in ``config``.
    """
    root = Path(root)
    # Snakemake, which merges the file into ``config``, accepts duplicate keys.
    in_file = strict_yaml.read(root / FILE, FILE)
    request = check(in_file, FILE)
    request = request if config is None else check(config)
    environment = _user_folders(request)
    catalog = catalogs.load(root, request.table_folders, request.folders, request.data, WHERE)
    for name, protocol in list(catalog.protocols.items()):
        with catalog.protocols.refusing(name):
            tuning.check(protocol, catalog)
    if request.highlight:
        lookup.check_algorithm(request.highlight, catalog.algorithms.declared, f"{WHERE}: highlight")
    references = reference.read_all(root)
    declared = catalog.tables.resolved(lambda name, entry: tables.table(name, entry, catalog, references))
    shown = catalog.figures.resolved(lambda name, entry: figures.figure(name, entry, catalog))
    lookup.raise_errors([*catalog.sections, declared, shown], missing=False)
    requested = Requested(_tables(request, declared), _figures(request, shown))
    # Tables must fit the declared datasets. Smaller local data must fit the requested tables alone.
    counted = _counted(request, catalog.datasets)
    sources = published.ordered(request.published, paths, counted, catalog.sources)
    counted = replace(catalog, datasets=counted, sources=sources)
    return Experiment(root, request, paths, counted, references, declared, shown, requested, environment)


def check(config: Any, where: str = WHERE) -> Request:
    """Return a configuration as a document; ConfigError for a wrong key, type or value."""
    strict_yaml.check(config, where)
    return REQUEST.check(config, where)


def check_file(path: Path) -> None:
    """Check the config.yaml at ``path``, if it exists."""
    if path.exists():
        check(strict_yaml.read(path, FILE), FILE)


def _user_folders(request: Request) -> dict[str, str]:
    """Register the user's files; return the environment variables for jobs."""
    for key in ("folders", "algorithm_folders", "model_folders", "table_folders", "published"):
        for folder in getattr(request, key):
            if not Path(folder).is_dir():
                absent = f"{WHERE}: {key}: there is no folder {folder!r} ({Path(folder).absolute()})"
                raise ConfigError(f"{absent}; create it, or correct or remove this entry")
    for file in filter(lambda file: kind_of(Path(file)) != "callback", request.callbacks):
        absent = "no class of it has the base Callback" if Path(file).is_file() else "there is no such file"
        raise ConfigError(f"{WHERE}: callbacks: {file}: {absent}; see docs/questions.md")
    environment = {}
    if request.callbacks:
        environment[CALLBACKS] = os.pathsep.join(str(Path(file).resolve()) for file in request.callbacks)
    for files in (algorithms.FILES, models.FILES):
        shared = files.look_in(request.folders, f"{WHERE}: folders", shared=True)
        if folders := shared + files.look_in(getattr(request, files.setting), f"{WHERE}: {files.setting}"):
            environment[files.variable] = os.pathsep.join(folders)
    return environment


def _tables(request: Request, entries: Entries[Table]) -> dict[str, list[str] | None]:
    """Return the requested tables and their columns; None for the columns of a table whose data are missing.

    :raises ConfigError: a table or column does not exist, or a table is requested twice.
    """
    chosen: dict[str, list[str] | None] = {}
    for index, entry in enumerate(request.tables):
        where = f"{WHERE}: tables[{index}]"
        name, patterns = (entry, ["*"]) if isinstance(entry, str) else (entry.table, entry.columns)
        lookup.check("table", name, entries.declared, where)
        if name in chosen:
            raise ConfigError(f"{where}: table {name!r} is given twice; put all its columns into one entry")
        columns = entries[name].columns if name in entries else {}
        for pattern in patterns if columns else ():
            if not fnmatch.filter(columns, pattern):
                raise ConfigError(unknown("column", pattern, columns, f"{where}.columns ({name})"))
        chosen[name] = [id_ for id_ in columns if protocols.matching_any(patterns, id_)] or None
    return chosen


def _figures(request: Request, entries: Entries[Figure]) -> list[str]:
    """Return the requested figures; ConfigError if a figure does not exist."""
    for index, name in enumerate(request.figures):
        lookup.check("figure", name, entries.declared, f"{WHERE}: figures[{index}]")
    return list(request.figures)


def _counted(request: Request, datasets: Entries[DatasetDocument]) -> Entries[LocalDataset]:
    """Return ``datasets`` with the image counts of ``data:``; ``declared_images`` is the declared number."""
    counts = {name: dict(source.images or {}) for name, source in request.data.items()}
    return datasets.resolved(
        lambda name, entry: LocalDataset.model_construct(
            **{**vars(entry), "declared_images": entry.train + entry.test, **counts.get(name, {})}
        )
    )
