"""Reading config/ into an :class:`Experiment`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed import algorithms, models
from flatfed.errors import ConfigError
from flatfed.experiment import catalog as catalogs
from flatfed.experiment import figures, selection, tables, tuning
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import Asked
from flatfed.papers import reference
from flatfed.runs.places import DEFAULT, Places
from flatfed.strict_yaml import read


def load(root: str | Path, config: dict[str, Any] | None = None, places: Places = DEFAULT) -> Experiment:
    """Read ``root``/config; ``places`` are the folders that all paths begin with.

    ``config`` is the content of config.yaml as merged with the command line (None: the file alone). A mistake in an
    entry is raised where the entry is needed, and by :meth:`Experiment.check`.

    :raises ConfigError: a mistake in ``config`` or in a file that everything needs.
    """
    root = Path(root)
    # Read in any case: Snakemake, which merges it into ``config``, lets a key given twice pass.
    own = read(root / "config" / "config.yaml", selection.FILE)
    selection.check(own, selection.FILE)
    config = own if config is None else config
    selection.check(config)
    if config.get("seeds_together") and len(config.get("seeds", [])) < 2:  # the file and the command line together
        raise ConfigError(f"{selection.WHERE}: seeds_together: true needs two `seeds` or more, such as [1, 2]")
    environment = _own_folders(config)
    catalog = catalogs.load(root, config.get("table_folders", []), config.get("data", {}), selection.WHERE)
    for name, protocol in list(catalog.protocols.items()):
        with catalog.protocols.refusing(name):
            tuning.check(protocol, catalog)
    references = reference.read_all(root)
    declared = catalog.tables.resolved(lambda name, entry: tables.table(name, entry, catalog, references))
    shown = catalog.figures.resolved(lambda name, entry: figures.figure(name, entry, catalog))
    asked = Asked(selection.tables(config, declared), selection.figures(config, shown))
    # Tables fit the datasets as declared; a part of one, on this machine, need only do for what is asked for.
    counted = replace(catalog, datasets=selection.counted(config, catalog.datasets))
    return Experiment(root, config, places, counted, references, declared, shown, asked, environment)


def _own_folders(config: dict[str, Any]) -> dict[str, str]:
    """Look for the user's own files in the folders of ``config``; return variables by which jobs find them, too."""
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
