"""The configuration of a sub-command: config.yaml of the current folder and config/ of this copy of FlatFed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from flatfed import plan
from flatfed.commands import run_folders
from flatfed.commands.arguments import is_value
from flatfed.config import strict_yaml
from flatfed.errors import ConfigError, os_error_message
from flatfed.files import digest_json, read_json, seal_outputs, write_json
from flatfed.plan.number import digest
from flatfed.runs.paths import Paths

#: This copy of FlatFed.
HOME = Path(__file__).resolve().parents[3]
DEFAULT = Path("config/config.yaml")

#: Environment variable: file of the effective configuration, for jobs of Snakemake.
VARIABLE = "FLATFED_CONFIGURATION"

#: The values of ``--config``: at most one file, and any number of KEY=VALUE.
Parts = Sequence[str] | None


def load(parts: Parts) -> plan.Experiment:
    """Load and validate the configuration of ``parts``, or, in jobs of Snakemake, the effective configuration."""
    if VARIABLE in os.environ and not parts:
        effective = read_json(os.environ[VARIABLE])
        loaded = plan.load(HOME, effective["config"], Paths(**effective["paths"]))
        return replace(loaded, published=effective["published"])
    return run_folders.with_published(plan.load(HOME, read(parts)))


def write_effective(config: dict[str, Any], loaded: plan.Experiment) -> None:
    """Write the effective configuration of a call of Snakemake for its jobs; ConfigError if that fails.

    Jobs read the published runs that the call chose, also if trainings of the call end before them.
    """
    effective = {"config": config, "paths": vars(loaded.paths), "published": loaded.published}
    path = Path(".snakemake", "flatfed", f"config-{digest_json(effective)[:16]}.json").absolute()
    os.environ[VARIABLE] = str(path)
    try:
        if not path.exists():
            write_json(path, effective)
    except OSError as error:
        raise ConfigError(f"cannot write the configuration for the jobs: {os_error_message(error)}") from None


def check_digest(options: argparse.Namespace, *specifications: Any) -> None:
    """Raise ConfigError if ``--digest`` is not that of ``specifications``."""
    if options.digest not in (None, digest(*specifications)):
        raise ConfigError("a file of config/ or of yours changed after Snakemake started: call Snakemake again")


def seal(options: argparse.Namespace, outputs: Sequence[Path], inputs: Iterable[str] = ()) -> None:
    """Seal ``outputs`` of a job with ``--seal``: Snakemake reruns it if they, the request or ``inputs`` change."""
    if options.seal:
        seal_outputs(outputs, options.seal, inputs)


def requested_tables(
    loaded: plan.Experiment, options: argparse.Namespace
) -> tuple[str, dict[str, list[str] | None]]:
    """Return the requested scale and tables with their columns (default: those of config.yaml)."""
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
    for key, _, text in (part.partition("=") for part in parts or () if is_value(part)):
        try:
            value = strict_yaml.as_in_a_file(yaml.safe_load(text))
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"--config: {key}={text}: not YAML ({' '.join(str(error).split())})") from None
        content = _merged(content, {key: value})
    return content


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``override``, as Snakemake merges --config."""
    mappings = {key for key in override if isinstance(base.get(key), dict) and isinstance(override[key], dict)}
    return {**base, **override, **{key: _merged(base[key], override[key]) for key in mappings}}
