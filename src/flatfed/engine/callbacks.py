"""What sees a simulation between its rounds."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.simulation import Simulation
from flatfed.errors import ConfigError
from flatfed.files import digest_file
from flatfed.user_files import CALLBACKS

#: Number of entries up to which a tensor is compared entry by entry; of a larger one, ``SAMPLED`` entries are.
COMPARED, SAMPLED = 1 << 24, 1 << 10


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


class UserCallback(Callback):
    """A user's ``callback``, ``name`` in messages: it gets copies of clients and lines.

    Each call raises ConfigError if it changed vectors, data or settings of the simulation. NumPy and ``.data`` change
    tensors without a trace, so their entries are compared, too.
    """

    def __init__(self, name: str, callback: Callback):
        self.name, self.callback = name, callback
        self.state, self.restore = callback.state, callback.restore

    def before_round(self, simulation: Simulation, clients: np.ndarray) -> None:
        self._call("before_round", simulation, clients.copy())

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        self._call("after_round", simulation, line and dict(line))

    def finish(self, simulation: Simulation) -> None:
        self._call("finish", simulation)

    def _call(self, method: str, simulation: Simulation, *arguments: Any) -> None:
        before = contents(simulation)
        getattr(self.callback, method)(simulation, *arguments)
        after = contents(simulation)
        if changed := [name for name in {**before, **after} if before.get(name) != after.get(name)]:
            remedy = 'a callback may change copies only, such as simulation.server["w"].clone()'
            raise ConfigError(f"callbacks: {self.name}.{method} changed simulation.{changed[0]}; {remedy}")


def contents(simulation: Simulation) -> dict[str, Any]:
    """Return name -> identity of the attributes of ``simulation`` and its algorithm, and contents of vectors and data.

    Contents are torch's count of changes and the :func:`entries`.
    """
    objects = {f"algorithm.{name}": value for name, value in vars(simulation.algorithm).items()} | vars(simulation)
    objects["model.training"] = simulation.model.training
    state, data, evaluate = simulation.state, simulation.data, simulation.evaluate
    snapshots = state.received.snapshots if state.received else {}
    tensors = {
        **{f'server["{name}"]': values for name, values in simulation.server.items()},
        **{f'state.store["{name}"]': values for name, values in state.store.items()},
        **{f"state.received.snapshots[{round_}]": values for round_, values in snapshots.items()},
        **{"buffers": simulation.buffers, "weights.initial": simulation.weights.initial},
        **{"data.images": data.images, "data.labels": data.labels},
        "members": torch.from_numpy(np.concatenate(simulation.members)),
        **{"evaluate.images": evaluate.images, "evaluate.train": evaluate.train},
    }
    identities = {name: id(value) for name, value in objects.items()}
    return identities | {name: (values._version, entries(values)) for name, values in tensors.items()}


def entries(values: Tensor) -> bytes:
    """Return all or ``SAMPLED`` entries of ``values``."""
    count = values.numel()
    return values.reshape(-1)[:: 1 if count <= COMPARED else count // SAMPLED].cpu().numpy().tobytes()


def files() -> dict[str, Path]:
    """Return name -> file of ``callbacks:`` in config.yaml; ConfigError for two files of one name."""
    named: dict[str, Path] = {}
    for path in map(Path, filter(None, os.environ.get(CALLBACKS, "").split(os.pathsep))):
        if named.setdefault(path.name, path) != path:
            raise ConfigError(f"callbacks: {named[path.name]} and {path} have the same name; rename one of them")
    return named


def digests() -> dict[str, dict[str, str]]:
    """Return the entry of run.json, {"callbacks": {name of a file: its SHA-256}}, or {} without callbacks."""
    return {"callbacks": {name: digest_file(path) for name, path in files().items()}} if files() else {}


def of_user() -> dict[str, Callback]:
    """Return an object of each callback in the user's :func:`files`, by file and class: "mine.py: Average".

    :raises ConfigError: a file cannot be imported, or a class cannot be made without arguments.
    """
    callbacks: dict[str, Callback] = {}
    for name, file in files().items():
        spec = importlib.util.spec_from_file_location(f"flatfed_callbacks_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look it up
        try:
            spec.loader.exec_module(module)
            for key, kind in list(vars(module).items()):
                if isinstance(kind, type) and issubclass(kind, Callback) and kind.__module__ == spec.name:
                    callbacks[f"{name}: {key}"] = UserCallback(f"{file}: {key}", kind())
        except (Exception, SystemExit) as error:  # a user's file can raise anything
            raise ConfigError(f"callbacks: {file}: {type(error).__name__}: {error}") from error
    return callbacks
