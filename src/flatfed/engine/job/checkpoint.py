"""Checkpoints: the state of a training after a whole round, in a hidden folder of the run.

A client whose vectors changed gets a new file, the server too; ``manifest.json`` names all files. A new checkpoint uses
new file names and replaces the manifest last, so a killed process leaves the old checkpoint or the new one.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from flatfed.engine.callbacks import Callback
from flatfed.engine.job.memory import is_shortage
from flatfed.engine.job.outputs import Identity
from flatfed.engine.simulation import Simulation
from flatfed.files import write_whole
from flatfed.runs.run_config import RunConfig, difference_texts

FOLDER, MANIFEST = ".checkpoint", "manifest.json"
STALE = f"{FOLDER}.stale"
NAME = f"{FOLDER}/{MANIFEST}"

GRACE = 10.0  # seconds to write a checkpoint, of Slurm's 30 between SIGTERM and SIGKILL
SHARE, SHORT = 0.1, 0.02  # largest share of the time for checkpoints; seconds of a write that may exceed it
WRITERS = 4  # files at a time: a disk confirms several about as fast as one, and each has a copy in memory
SPEED = 200e6  # assumed bytes per second of the disk until a checkpoint has measured it


class Damaged(Exception):
    """The checkpoint is unreadable, or of another run."""


class Checkpoint(Callback):
    """The checkpoint of a run in folder ``out``; ``identity``: all inputs of the run.

    It keeps the simulation and the states of ``callbacks``. A damaged one, and one of another run or other bfloat16
    hardware (``units``), is renamed to ``.checkpoint.stale``.
    """

    def __init__(self, out: Path, identity: Identity, config: RunConfig | None = None, units: list[str] | None = None):
        self.out, self.folder, self.identity, self.units = out, out / FOLDER, asdict(identity), units
        self.callbacks: dict[str, Callback] = {}
        self.manifest: dict[str, Any] = {}
        self.speed, self.seconds, self.written = SPEED, 0.0, time.monotonic()
        try:
            self._read(config)
        except Damaged as reason:
            self.set_aside(reason)

    @property
    def executor(self) -> str | None:
        """The executor that wrote the checkpoint, None without a checkpoint."""
        return self.manifest.get("executor")

    @property
    def files(self) -> dict[str, str]:
        """Key ("server", "client-7", "received-3" of round 3) -> file with its vectors."""
        return self.manifest.get("files", {})

    def _read(self, config: RunConfig | None) -> None:
        """Read the manifest, if there is one, and remove the files of unfinished checkpoints.

        :raises Damaged: see :class:`Checkpoint`.
        """
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            if differences := self._differences(manifest, config):
                raise Damaged(f"it is of another run: {differences}")
            self.manifest = manifest
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{MANIFEST} cannot be read: {error}") from error
        self._remove_unnamed_files()

    def _differences(self, manifest: dict[str, Any], config: RunConfig | None) -> str:
        """Return the differences between the run of ``manifest`` and this run."""
        identity = manifest["identity"]
        different = {key for key in {**identity, **self.identity} if identity.get(key) != self.identity.get(key)}
        words = []
        if "description_digest" in different:
            words = difference_texts(*map(_lasting, (manifest["description"], config.as_json() if config else {})))
            different.remove("description_digest")
        words = [*(f"another {key.removesuffix('_digest')}" for key in sorted(different)), *words]
        hardware = manifest.get("units"), self.units
        if None not in hardware and hardware[0] != hardware[1]:
            before, here = (" and ".join(units) or "a CPU without units for it" for units in hardware)
            words.append(f"bfloat16 was multiplied by {before}, here by {here}")
        return "; ".join(words)

    def set_aside(self, reason: Damaged) -> None:
        print(f"{self.folder} is set aside as {STALE}: {reason}", file=sys.stderr)
        shutil.rmtree(self.out / STALE, ignore_errors=True)
        self.folder.replace(self.out / STALE)
        self.manifest = {}

    def restore(self, simulation: Simulation) -> None:
        """Restore the state of ``simulation`` and of the callbacks.

        :raises Damaged: a file is missing or unreadable; part of the state is then set.
        """
        state = simulation.state
        try:
            server = self._load("server")
            for name, values in simulation.server.items():
                values.copy_(server[name])
            for key in self.files:
                if key.startswith("client-"):
                    state.load(int(key.removeprefix("client-")), self._load(key))
            if state.received is not None:
                state.received.load(self.manifest["received"], lambda round_: self._load(f"received-{round_}")["w"])
            simulation.resume(self.manifest["simulation"])
            for name, content in self.manifest["callbacks"].items():
                if name in self.callbacks:
                    self.callbacks[name].restore(content)
        except (SafetensorError, FileNotFoundError, LookupError, TypeError, ValueError, RuntimeError) as error:
            if is_shortage(error):
                raise
            raise Damaged(f"it cannot be read: {error}") from error

    def _load(self, key: str) -> dict[str, Tensor]:
        return load_file(self.folder / self.files[key])

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        if simulation.round < simulation.config.rounds and self.due(simulation):
            self.write(simulation)

    def due(self, simulation: Simulation) -> bool:
        """Return whether to write a checkpoint after this round.

        A planned one is skipped if it would exceed ``SHARE`` of the time since the last. An unplanned one is due before
        changed clients of this and the next round take longer than ``GRACE`` to write, but only if they add up over
        rounds: without a server, every round changes the same clients.
        """
        state, changed = simulation.state, int(simulation.state.changed.sum())
        if simulation.round % simulation.config.checkpoint_every == 0:
            size = changed * state.row_bytes() + sum(values.nbytes for values in simulation.server.values())
            # Many small files take longer than their bytes, as the last checkpoint has shown.
            if max(self.seconds, size / self.speed) <= max(SHORT, SHARE * (time.monotonic() - self.written)):
                return True
        waiting = min(changed + state.active, simulation.client_count)
        return waiting > state.active and waiting * state.row_bytes() > self.speed * GRACE

    def write(self, simulation: Simulation) -> int:
        """Write the vectors that changed since the last checkpoint, and the manifest; return the vectors' bytes."""
        began, number = time.monotonic(), self.manifest.get("number", 0) + 1
        state, received = simulation.state, simulation.state.received
        changed = np.flatnonzero(state.changed).tolist() if state.store else ()
        snapshots = {f"received-{round_}": {"w": w} for round_, w in received.snapshots.items()} if received else {}
        vectors = {
            "server": simulation.server,
            **{f"client-{client}": {name: rows[client] for name, rows in state.store.items()} for client in changed},
            **{key: tensors for key, tensors in snapshots.items() if key not in self.files},
        }
        files = {key: file for key, file in self.files.items() if key in snapshots or not key.startswith("received-")}
        files |= {key: f"{key}.{number}.safetensors" for key in vectors}

        def write(key: str) -> int:
            with write_whole(self.folder / files[key]) as file:
                file.write(save({name: values.cpu().contiguous() for name, values in vectors[key].items()}))
            return sum(values.nbytes for values in vectors[key].values())

        with ThreadPoolExecutor(WRITERS) as pool:
            size = sum(pool.map(write, vectors))
        states = {name: callback.state() for name, callback in self.callbacks.items()}
        manifest = {
            "number": number,
            "identity": self.identity,
            "description": simulation.config.as_json(),
            "units": self.units,
            "executor": simulation.executor.name,
            "files": files,
            "received": received.rounds.tolist() if received else None,
            "simulation": simulation.progress(),
            "callbacks": {name: content for name, content in states.items() if content is not None},
        }
        with write_whole(self.folder / MANIFEST, "w") as file:
            json.dump(manifest, file)
        self.manifest = manifest
        self._remove_unnamed_files()
        state.changed[:] = False
        self.written = time.monotonic()
        self.seconds = self.written - began
        if size > self.speed / 10:  # smaller writes do not measure the disk
            self.speed = size / self.seconds
        return size

    def _remove_unnamed_files(self) -> None:
        named = {MANIFEST, *self.files.values()}
        for path in self.folder.glob("*"):
            if path.name not in named:
                path.unlink()

    def finish(self, simulation: Simulation) -> None:
        """Remove the checkpoint, first its manifest: a part of its files is no checkpoint."""
        (self.folder / MANIFEST).unlink(missing_ok=True)
        for name in (FOLDER, STALE):
            shutil.rmtree(self.out / name, ignore_errors=True)


def remove_leftover(out: Path, sessions: list[dict[str, Any]]) -> None:
    """Remove the checkpoint in ``out`` if it is of the finished run with ``sessions``, which a killed process left."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        manifest = json.loads((out / FOLDER / MANIFEST).read_text(encoding="utf-8"))
        if manifest["callbacks"]["Outputs"]["sessions"][:1] == sessions[:1]:
            shutil.rmtree(out / FOLDER)


def _lasting(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the ``settings`` of a run without those that may change before it resumes."""
    lasting = {key: value for key, value in settings.items() if key not in RunConfig.RESUMABLE}
    evaluation = settings.get("evaluation", {})
    return lasting | {"evaluation": {key: value for key, value in evaluation.items() if key != "batch_size"}}
