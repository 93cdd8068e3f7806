"""The configuration as the sub-commands see it: read from this folder, by the files of this copy of FlatFed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.errors import ConfigError
from flatfed.experiment import strict_yaml

#: The copy of FlatFed that is running: its config/ holds the protocols, splits, algorithms and tables.
HOME = Path(__file__).resolve().parents[3]
DEFAULT = Path("config/config.yaml")


def load(path: Path | None) -> experiment.Experiment:
    """Load and validate the configuration in ``path`` (default: config/config.yaml here, else FlatFed's own).

    :raises ConfigError: the file cannot be read, or anything in the configuration is wrong.
    """
    return experiment.load(HOME, read(path))


def read(path: Path | None) -> dict[str, Any]:
    """Return what the configuration file ``path`` holds (default: as :func:`load`); ConfigError: it cannot be read."""
    if path is None:
        path = DEFAULT if DEFAULT.exists() else HOME / DEFAULT
    content = strict_yaml.read(path, str(path))
    if content is None:  # which would mean FlatFed's own
        raise ConfigError(f"{path}: holds nothing; a configuration has `scale`, `tables` and `figures` at least")
    return content
