"""Loading of config/ into an :class:`Experiment`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed import algorithms, models
from flatfed.config.strict_yaml import read
from flatfed.errors import ConfigError
from flatfed.experiment import catalog as catalogs
from flatfed.experiment import figures, lookup, selection, tables, tuning
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import Requested
from flatfed.papers import reference
from flatfed.runs.paths import DEFAULT, Paths


def load(root: str | Path, config: dict[str, Any] | None = None, paths: Paths = DEFAULT) -> Experiment:
    """Return the experiment of ``root``/config; ``config``: config.yaml with the command line (None: the file alone).

    Entries whose data are missing raise an error when they are used, and in :meth:`Experiment.check`.

    :raises ConfigError: all mistakes in the files, or a mistake in ``config``.
    """
    root = Path(root)
    # Snakemake, which merges the file into ``config``, accepts duplicate keys.
    file_config = read(root / "config" / "config.yaml", selection.FILE)
    selection.check(file_config, selection.FILE)
    config = file_config if config is None else config
    selection.check(config)
    environment = _user_folders(config)
    catalog = catalogs.load(root, config.get("table_folders", []), config.get("data", {}), selection.WHERE)
    for name, protocol in list(catalog.protocols.items()):
        with catalog.protocols.refusing(name):
            tuning.check(protocol, catalog)
    references = reference.read_all(root)
    declared = catalog.tables.resolved(lambda name, entry: tables.table(name, entry, catalog, references))
    shown = catalog.figures.resolved(lambda name, entry: figures.figure(name, entry, catalog))
    lookup.raise_errors([*catalog.sections, declared, shown], missing=False)
    requested = Requested(selection.tables(config, declared), selection.figures(config, shown))
    # Tables must fit the declared datasets. Smaller local data must fit the requested tables alone.
    counted = replace(catalog, datasets=selection.counted(config, catalog.datasets))
    return Experiment(root, config, paths, counted, references, declared, shown, requested, environment)


def _user_folders(config: dict[str, Any]) -> dict[str, str]:
    """Register the user's files; return the environment variables for jobs."""
    for key in ("algorithm_folders", "model_folders", "table_folders"):
        for folder in config.get(key, []):
            if not Path(folder).is_dir():
                absent = f"{selection.WHERE}: {key}: there is no folder {folder!r} ({Path(folder).absolute()})"
                raise ConfigError(f"{absent}; create it, or correct or remove this entry")
    environment = {}
    for files in (algorithms.FILES, models.FILES):
        if folders := files.look_in(config.get(files.setting, []), f"{selection.WHERE}: {files.setting}"):
            environment[files.variable] = os.pathsep.join(folders)
    return environment
