"""Checkpoints: written whole, of exactly one run, and never trusted otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from flatfed.engine.simulation import Simulation
from flatfed.files import write_whole

NAME = ".checkpoint.safetensors"


def write(path: Path, identity: dict[str, str], simulation: Simulation, lines: list[dict[str, Any]]) -> None:
    """Write the state of ``simulation`` and the metrics so far to ``path``: the server, and clients that took part.

    Random streams need no state, they are keyed by the round. ``identity`` says which run this is.
    """
    tensors = {f"server.{name}": value for name, value in simulation.server.items()}
    tensors.update({f"client.{name}": rows for name, rows in simulation.state.dump()})
    tensors["touched"] = torch.from_numpy(simulation.state.touched)
    progress = {
        "round": simulation.round,
        "bytes": simulation.bytes,
        "seconds": simulation.seconds,
        "lines": lines,
    }
    content = save(
        {name: value.contiguous().cpu() for name, value in tensors.items()},
        {
            "identity": json.dumps({**identity, "executor": simulation.executor.name}, sort_keys=True),
            "progress": json.dumps(progress),
        },
    )
    with write_whole(path) as file:
        file.write(content)


def executor_of(path: Path, identity: dict[str, str]) -> str | None:
    """Return the executor the checkpoint at ``path`` was made with; None if there is none of this run.

    A checkpoint that cannot be read, or of another run (other parameters, code, data), is set aside as ``.stale``.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            found = json.loads(file.metadata()["identity"])
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError):
        found = {}
    executor = found.pop("executor", None)
    if found != identity:
        path.replace(path.with_suffix(".stale"))
        return None
    return executor


def restore(path: Path, simulation: Simulation) -> list[dict[str, Any]]:
    """Set the state of ``simulation`` from the checkpoint at ``path``; return the metrics so far."""
    with safe_open(path, framework="pt") as file:
        progress = json.loads(file.metadata()["progress"])
        for name, value in simulation.server.items():
            value.copy_(file.get_tensor(f"server.{name}"))
        clients = np.flatnonzero(file.get_tensor("touched").numpy())
        rows = {name: file.get_tensor(f"client.{name}") for name in simulation.state.store}
        simulation.state.restore(clients, rows)
    simulation.round = progress["round"]
    simulation.bytes = progress["bytes"]
    simulation.seconds = progress["seconds"]
    return progress["lines"]
