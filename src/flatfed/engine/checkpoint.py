"""Checkpoints: written whole, of exactly one run, and never trusted otherwise. They are safetensors files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flatfed.engine.simulation import Simulation
from flatfed.files import write_whole

NAME = ".checkpoint.safetensors"
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.bool: "BOOL", torch.int64: "I64"}


def write(path: Path, identity: dict[str, str], simulation: Simulation, progress: dict[str, Any]) -> None:
    """Write the state of ``simulation`` and the caller's ``progress`` (JSON) to ``path``, whole.

    The server's vectors and those of clients that took part; random streams need no state, they are keyed by the round.
    Clients are written one by one: a checkpoint needs no second copy of their state. ``identity`` says which run it is.
    """
    state = simulation.state
    count = int(state.touched.sum())
    parts: list[tuple[str, tuple[int, ...], torch.dtype, Iterator[Tensor]]] = [
        ("touched", (len(state.touched),), torch.bool, iter([torch.from_numpy(state.touched)]))
    ]
    for name, value in simulation.server.items():
        parts.append((f"server.{name}", tuple(value.shape), value.dtype, iter([value.cpu()])))
    for name, values in state.store.items():
        parts.append((f"client.{name}", (count, values.shape[1]), values.dtype, state.rows(name)))
    if simulation.received is not None:
        rounds = torch.from_numpy(simulation.received.rounds)
        parts.append(("received", tuple(rounds.shape), rounds.dtype, iter([rounds])))
        for round_, value in simulation.received.snapshots.items():
            parts.append((f"received.{round_}", tuple(value.shape), value.dtype, iter([value.cpu()])))
    about = {
        "identity": {**identity, "executor": simulation.executor.name},
        "progress": {
            "round": simulation.round,
            "counts": simulation.cost.counts,
            "probes": simulation.probes,
            "seconds": simulation.seconds,
            **progress,
        },
    }
    header: dict[str, Any] = {"__metadata__": {key: json.dumps(value, sort_keys=True) for key, value in about.items()}}
    end = 0
    for name, shape, dtype, _ in parts:
        begin, end = end, end + int(np.prod(shape)) * dtype.itemsize
        header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)
    with write_whole(path) as file:
        file.write(struct.pack("<Q", len(content)) + content)
        for _, _, _, tensors in parts:
            for tensor in tensors:
                file.write(tensor.contiguous().numpy().tobytes())


def executor_of(path: Path, identity: dict[str, str]) -> str | None:
    """Return the executor the checkpoint at ``path`` was made with; None if there is none of this run.

    A checkpoint that cannot be read, or of another run (other parameters, code, data), is set aside as ``.stale``. What
    an interrupted write of a checkpoint left is removed.
    """
    for left in path.parent.glob(f".{path.name}.*.part"):
        left.unlink()
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


def restore(path: Path, simulation: Simulation) -> dict[str, Any]:
    """Set the state of ``simulation`` from the checkpoint at ``path``; return the caller's progress."""
    with safe_open(path, framework="pt") as file:
        progress = json.loads(file.metadata()["progress"])
        for name, value in simulation.server.items():
            value.copy_(file.get_tensor(f"server.{name}"))
        clients = np.flatnonzero(file.get_tensor("touched").numpy())
        simulation.state.touched[:] = False
        for name in simulation.state.store:
            saved = file.get_slice(f"client.{name}")
            simulation.state.restore(clients, name, (saved[row] for row in range(len(clients))))
        simulation.state.touched[clients] = True
        if simulation.received is not None:
            received = simulation.received
            received.rounds = file.get_tensor("received").numpy().copy()
            wanted = sorted(set(received.rounds.tolist()) - {-1})
            received.snapshots = {r: file.get_tensor(f"received.{r}").to(received.place) for r in wanted}
    simulation.round = progress.pop("round")
    simulation.cost.counts = progress.pop("counts")
    simulation.probes = progress.pop("probes")
    simulation.seconds = progress.pop("seconds")
    return progress


def discard(path: Path) -> None:
    """Remove the checkpoint of a finished run, and one of another run that was set aside."""
    path.unlink(missing_ok=True)
    path.with_suffix(".stale").unlink(missing_ok=True)
