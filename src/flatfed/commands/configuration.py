"""The configuration of a sub-command: config.yaml of the current folder, and the config/ of this copy of FlatFed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from flatfed import experiment, strict_yaml
from flatfed.commands.kinds import is_value
from flatfed.errors import ConfigError, described
from flatfed.experiment import RequestedTable, scales, selection
from flatfed.files import digest_json, read_json, write_json
from flatfed.runs.places import Places

#: The copy of FlatFed that is running: its config/ holds the protocols, splits, algorithms and tables.
HOME = Path(__file__).resolve().parents[3]
DEFAULT = Path("config/config.yaml")

#: Environment variable with the file of the effective configuration of a call of Snakemake, which its jobs read.
VARIABLE = "FLATFED_CONFIGURATION"

#: The values of ``--config``: at most one file, and any number of KEY=VALUE, as Snakemake takes them.
Parts = Sequence[str] | None


def load(parts: Parts) -> experiment.Experiment:
    """Load and validate the configuration that ``parts`` of the command line make, as :func:`read` does.

    Jobs of Snakemake have no parts: they read the file that :func:`write_effective` wrote.

    :raises ConfigError: the file cannot be read, or anything in the configuration is wrong.
    """
    if VARIABLE in os.environ and not parts:
        effective = read_json(os.environ[VARIABLE])
        return experiment.load(HOME, effective["config"], Places(**effective["places"]))
    return experiment.load(HOME, read(parts))


def write_effective(config: dict[str, Any], places: Places) -> None:
    """Write the effective configuration of a call of Snakemake to a file that its jobs read on any host.

    :raises ConfigError: the file cannot be written.
    """
    effective = {"config": config, "places": vars(places)}
    path = Path(".snakemake", "flatfed", f"config-{digest_json(effective)[:16]}.json").absolute()
    os.environ[VARIABLE] = str(path)
    try:
        if not path.exists():
            write_json(path, effective)
    except OSError as error:
        raise ConfigError(f"the configuration cannot be written for the jobs: {described(error)}") from None


def check_digest(here: str, options: argparse.Namespace) -> None:
    """Refuse a job whose content has another digest than ``--digest``, which Snakemake computed.

    :raises ConfigError: a file of the configuration changed after Snakemake started.
    """
    if options.digest not in (None, here):
        raise ConfigError("a file under config/, or of your own, changed after Snakemake started: call Snakemake again")


def asked_tables(loaded: experiment.Experiment, options: argparse.Namespace) -> tuple[str, list[RequestedTable]]:
    """Return the scale and the tables, with columns, that the command line asks for, else those of config.yaml."""
    scale = options.scale or selection.scale_of(loaded, options.tables)
    requested = scales.existing(loaded, scale, loaded.requested)
    return scale, selection.with_columns(loaded, options.tables) or requested.tables


def read(parts: Parts) -> dict[str, Any]:
    """Return the content of the file among ``parts``, its values replaced by those of each KEY=VALUE.

    Without a file it is config/config.yaml of the current folder, or FlatFed's own where there is none.

    :raises ConfigError: there are two files, one cannot be read, or a value is not YAML.
    """
    files = [part for part in parts or () if not is_value(part)]
    if len(files) > 1:
        raise ConfigError(f"--config: {', '.join(files)}: one file is wanted, and KEY=VALUE for what differs from it")
    path = Path(files[0]) if files else DEFAULT if DEFAULT.exists() else HOME / DEFAULT
    content = strict_yaml.read(path, str(path))
    if not isinstance(content, dict):  # None would mean FlatFed's own
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        raise ConfigError(f"{path}: keys with values are wanted, such as `scale: preview`, not {kind}")
    for key, _, text in (part.partition("=") for part in parts or () if is_value(part)):
        try:
            value = strict_yaml.as_in_a_file(yaml.safe_load(text))
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"--config: {key}={text}: not YAML ({' '.join(str(error).split())})") from None
        content = _merged(content, {key: value})
    return content


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``; mappings are merged key by key, as Snakemake merges --config."""
    both = {key for key in over if isinstance(base.get(key), dict) and isinstance(over[key], dict)}
    return {**base, **over, **{key: _merged(base[key], over[key]) for key in both}}
