"""What sees a simulation between its rounds."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.engine.simulation import Simulation
from flatfed.errors import ConfigError
from flatfed.user_files import CALLBACKS


class Callback:
    """Called around each round of a training; every method does nothing by default.

    A callback may read ``simulation`` and must not change it.
    """

    def before_round(self, simulation: Simulation, clients: np.ndarray) -> None:
        """``clients`` (n,): ids of the clients of the coming round."""

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        """``line``: the round's line of metrics.csv, or None for a round without evaluation."""

    def finish(self, simulation: Simulation) -> None:
        """The training is complete or has diverged."""

    def state(self) -> Any:
        """Return what the callback must keep over an interruption, as JSON; None for nothing."""

    def restore(self, state: Any) -> None:
        """Continue with the ``state`` of an earlier session."""


def of_user() -> list[Callback]:
    """Return an object of each callback in the files of ``callbacks:`` in config.yaml.

    :raises ConfigError: a file cannot be imported, or a class cannot be made without arguments.
    """
    found: list[Callback] = []
    for file in map(Path, filter(None, os.environ.get(CALLBACKS, "").split(os.pathsep))):
        spec = importlib.util.spec_from_file_location(f"flatfed_callbacks.{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            own = [value for value in vars(module).values() if getattr(value, "__module__", "") == spec.name]
            found += [value() for value in own if isinstance(value, type) and issubclass(value, Callback)]
        except Exception as error:  # a user's file can raise anything
            raise ConfigError(f"callbacks: {file}: {type(error).__name__}: {error}") from error
    return found
