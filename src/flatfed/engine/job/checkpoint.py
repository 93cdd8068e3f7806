"""Checkpoints: the state of a training after a whole round, in one hidden file of the run.

Its format is safetensors; the metadata have a manifest. A new checkpoint replaces the last one when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flatfed.engine.callbacks import Callback
from flatfed.engine.job.memory import is_shortage
from flatfed.engine.job.outputs import Identity
from flatfed.engine.simulation import Simulation
from flatfed.engine.weights import fixed
from flatfed.files import remove_parts, write_whole
from flatfed.runs.record import CHECKPOINT as NAME
from flatfed.runs.run_config import RunConfig, difference_texts

STALE = f"{NAME}.stale"
PERIOD = 600.0  # seconds from one checkpoint to the next
SPARING = 20  # least multiple of the time for the last checkpoint: writing takes less than 5 % of the time
DTYPES = {"torch.float32": "F32", "torch.float64": "F64"}  # in safetensors


class Damaged(Exception):
    """The checkpoint is unreadable, or of another run."""


class Checkpoint(Callback):
    """The checkpoint of a run in folder ``out``; ``identity``: all inputs of the run.

    It keeps the simulation and the states of ``callbacks``. A damaged one, and one of another run, is renamed to
    ``.checkpoint.stale``.
    """

    def __init__(self, out: Path, identity: Identity, config: RunConfig):
        self.out, self.path, self.identity, self.config = out, out / NAME, asdict(identity), config
        self.callbacks: dict[str, Callback] = {}
        self.manifest: dict[str, Any] = {}
        self.seconds, self.written = 0.0, time.monotonic()
        remove_parts(self.path)
        if not self.path.exists():
            return
        try:
            self.manifest = read_manifest(self.path)
            if differences := self._differences():
                raise Damaged(f"it is of another run: {differences}")
        except Damaged as reason:
            self.set_aside(reason)

    @property
    def executor(self) -> str | None:
        """The executor that wrote the checkpoint, None without a checkpoint."""
        return self.manifest.get("executor")

    def _differences(self) -> str:
        """Return the differences between the run of the checkpoint and this run."""
        before = {**self.manifest["identity"], "description_digest": self.identity["description_digest"]}
        others = sorted(key for key, value in self.identity.items() if before.get(key) != value)
        settings = map(_lasting, (self.manifest["description"], self.config.as_json()))
        return "; ".join([f"another {key.removesuffix('_digest')}" for key in others] + difference_texts(*settings))

    def set_aside(self, reason: Damaged) -> None:
        print(f"{self.path} is set aside as {STALE}: {reason}", file=sys.stderr)
        self.path.replace(self.out / STALE)
        self.manifest = {}

    def restore(self, simulation: Simulation) -> None:
        """Restore the state of ``simulation`` and of the callbacks.

        :raises Damaged: the file is damaged; part of the state is then set.
        """
        state = simulation.state
        try:
            with safe_open(self.path, "pt") as file:
                for name, values in simulation.server.items():
                    values.copy_(file.get_tensor(f"server.{name}"))
                if simulation.buffers.numel():
                    simulation.buffers.copy_(file.get_tensor("buffers"))
                for name, values in fixed(simulation.model).items():
                    values.copy_(file.get_tensor(f"fixed.{name}"))
                for client in self.manifest["clients"]:
                    state.load(client, {name: file.get_tensor(f"client-{client}.{name}") for name in state.store})
                if state.received is not None:
                    state.received.load(self.manifest["received"], lambda round_: file.get_tensor(f"received-{round_}"))
            simulation.resume(self.manifest["simulation"])
            for name, content in self.manifest["callbacks"].items():
                if name in self.callbacks:
                    self.callbacks[name].restore(content)
        except (SafetensorError, FileNotFoundError, LookupError, TypeError, ValueError, RuntimeError) as error:
            if is_shortage(error):
                raise
            raise Damaged(f"it cannot be read: {error}") from error

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        waiting = time.monotonic() - self.written
        if simulation.round < simulation.config.rounds and waiting >= max(PERIOD, SPARING * self.seconds):
            self.write(simulation)

    def write(self, simulation: Simulation) -> int:
        """Write the checkpoint; return the bytes of its vectors."""
        began, state = time.monotonic(), simulation.state
        clients = np.flatnonzero(state.touched).tolist() if state.store else []
        snapshots = state.received.snapshots if state.received else {}
        vectors = {
            **{f"server.{name}": values for name, values in simulation.server.items()},
            **{f"client-{client}.{name}": rows[client] for client in clients for name, rows in state.store.items()},
            **{f"received-{round_}": w for round_, w in snapshots.items()},
        }
        if simulation.buffers.numel():
            vectors["buffers"] = simulation.buffers
        # A resumed training builds them again, but another machine or version of torch may draw other values.
        vectors |= {f"fixed.{name}": values for name, values in fixed(simulation.model).items()}
        states = {name: callback.state() for name, callback in self.callbacks.items()}
        manifest = {
            "identity": self.identity,
            "description": simulation.config.as_json(),
            "executor": simulation.executor.name,
            "clients": clients,
            "received": state.received.rounds.tolist() if state.received else None,
            "simulation": simulation.progress(),
            "callbacks": {name: content for name, content in states.items() if content is not None},
        }
        with write_whole(self.path) as file:
            size = write_tensors(file, vectors, {"manifest": json.dumps(manifest)})
        self.written = time.monotonic()
        self.seconds = self.written - began
        return size

    def finish(self, simulation: Simulation) -> None:
        for name in (NAME, STALE):
            (self.out / name).unlink(missing_ok=True)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of the checkpoint ``path``.

    :raises Damaged: it is no checkpoint, or a damaged one.
    """
    try:
        with safe_open(path, "pt") as file:
            return json.loads(file.metadata()["manifest"])
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise Damaged(f"it cannot be read: {error}") from error


def write_tensors(file: IO[bytes], tensors: dict[str, Tensor], metadata: dict[str, str]) -> int:
    """Write ``tensors`` in the format safetensors, one after the other; return their bytes.

    The library's function needs a copy of all tensors of a GPU in the host's memory at once.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    size = 0
    for name, values in tensors.items():
        span = [size, size + values.nbytes]
        header[name] = {"dtype": DTYPES[str(values.dtype)], "shape": list(values.shape), "data_offsets": span}
        size += values.nbytes
    text = json.dumps(header).encode()
    file.write(len(text).to_bytes(8, "little") + text)
    for values in tensors.values():
        file.write(values.cpu().contiguous().numpy())
    return size


def remove_leftover(out: Path, sessions: list[dict[str, Any]]) -> None:
    """Remove the checkpoint in ``out`` if it is of the finished run with ``sessions``, which a killed process left."""
    with contextlib.suppress(Damaged, LookupError, TypeError):
        if read_manifest(out / NAME)["callbacks"]["Outputs"]["sessions"][:1] == sessions[:1]:
            (out / NAME).unlink()


def _lasting(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the ``settings`` of a run without those that may change before it resumes."""
    lasting = {key: value for key, value in settings.items() if key not in RunConfig.RESUMABLE}
    evaluation = settings.get("evaluation", {})
    return lasting | {"evaluation": {key: value for key, value in evaluation.items() if key != "batch_size"}}
