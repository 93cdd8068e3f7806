"""The configuration of a sub-command: config.yaml of the current folder and config/ of this copy of FlatFed."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from flatfed import plan
from flatfed.commands.arguments import is_value
from flatfed.config import parsed_files, strict_yaml
from flatfed.errors import ConfigError, os_error_message
from flatfed.files import check_place, digest_json, read_json, write_json
from flatfed.runs.paths import Paths

#: This copy of FlatFed.
HOME = Path(__file__).resolve().parents[3]
DEFAULT = Path("config/config.yaml")

#: Environment variable of the jobs of Snakemake: the copy of the configuration that their call has read.
VARIABLE = "FLATFED_CONFIGURATION"

#: Folder of the copies, and the days after which an unused one goes.
COPIES, DAYS = Path(".snakemake", "flatfed"), 60

#: The values of ``--config``: at most one file, and any number of KEY=VALUE.
Parts = Sequence[str] | None


def home() -> Path:
    """Return this copy of FlatFed. ConfigError if it is only the package, as from a wheel."""
    if not (HOME / "config").is_dir():
        package = Path(__file__).resolve().parents[1]
        raise ConfigError(
            f"FlatFed runs from a clone, for its configuration and rules, which {package} lacks: clone the repository, "
            "and there call `make quickstart` and `. .venv/bin/activate`"
        )
    return HOME


def load(parts: Parts) -> plan.Experiment:
    """Load and validate the configuration of ``parts``, or, in jobs of Snakemake, the copy of their call."""
    if VARIABLE in os.environ and not parts:
        copy = read_json(os.environ[VARIABLE])
        parsed_files.use(copy["files"])
        return plan.load(home(), copy["config"], Paths(**copy["paths"]))
    return plan.load(home(), read(parts))


def of_call(root: Path, config: dict[str, Any], paths: Paths, main: bool) -> plan.Experiment:
    """Return the configuration of a call of Snakemake: its ``main`` process reads files, others read the copy.

    :raises DataError: a file or a broken link has the name of a folder of results.
    """
    if not main:
        return load(None)
    for folder in paths.folders:
        check_place(folder, folder=True)
    return plan.load(root, config, paths)


def write_copy(config: dict[str, Any], loaded: plan.Experiment) -> None:
    """Write a copy of the files of the configuration and of ``config`` for the jobs of this call of Snakemake.

    :raises ConfigError: the copy cannot be written.
    """
    files = parsed_files.contents
    copy = {"config": config, "paths": vars(loaded.paths), "files": files}
    path = COPIES.absolute() / f"{digest_json(copy)[:16]}.json"
    os.environ[VARIABLE] = str(path)
    try:
        if path.exists():
            path.touch()
        else:
            write_json(path, copy)
        for old in path.parent.glob("*.json"):
            if time.time() - old.stat().st_mtime > DAYS * 86400:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write the configuration for the jobs: {os_error_message(error)}") from None


def requested_tables(loaded: plan.Experiment, options: argparse.Namespace) -> tuple[str, dict[str, list[str] | None]]:
    """Return the requested scale and tables with their columns (default: those of config.yaml).

    :raises ConfigError: a figure is requested.
    """
    if figures := {*options.tables} & (loaded.figures.keys() - loaded.tables.keys()):
        raise ConfigError(f"{', '.join(sorted(figures))}: a figure; this command shows tables")
    scale = options.scale or loaded.scale_of(options.tables)
    return scale, loaded.with_columns(options.tables) or loaded.existing(scale, loaded.requested).tables


def read(parts: Parts) -> dict[str, Any]:
    """Return the content of the file among ``parts``, overridden by each KEY=VALUE.

    Default file: config/config.yaml of the current folder, else of FlatFed. ConfigError as for wrong YAML.
    """
    files = [part for part in parts or () if not is_value(part)]
    if len(files) > 1:
        raise ConfigError(f"--config: {', '.join(files)}: expected one file, and KEY=VALUE to override it")
    path = Path(files[0]) if files else DEFAULT if DEFAULT.exists() else HOME / DEFAULT
    content = strict_yaml.read(path, str(path))
    if not isinstance(content, dict):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        raise ConfigError(f"{path}: expected keys with values, such as `scale: preview`, not {kind}")
    for key, value in overrides(parts, "--config"):
        content = _merged(content, {key: value})
    return content


def overrides(parts: Parts, option: str) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each KEY=VALUE of an ``option``, read as YAML; ConfigError if it is none."""
    for key, _, text in (part.partition("=") for part in parts or () if is_value(part)):
        try:
            yield key, strict_yaml.as_in_a_file(yaml.safe_load(text))
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"{option}: {key}={text}: not YAML ({' '.join(str(error).split())})") from None


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``override``, as Snakemake merges --config."""
    mappings = {key for key in override if isinstance(base.get(key), dict) and isinstance(override[key], dict)}
    return {**base, **override, **{key: _merged(base[key], override[key]) for key in mappings}}
