"""Checkpoints: the state of a run after a whole round, as a journal in a hidden folder of the run."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from flatfed.engine.client_state import ClientState
from flatfed.engine.job import interruption
from flatfed.engine.job.inputs import Identity
from flatfed.engine.job.journal import MANIFEST, Damaged, Journal
from flatfed.engine.simulation import Simulation
from flatfed.runs.identity import difference_texts
from flatfed.runs.run_config import RunConfig

FOLDER = ".checkpoint"
STALE = f"{FOLDER}.stale"
NAME = f"{FOLDER}/{MANIFEST}"

GRACE = 10.0  # seconds to write a checkpoint, of Slurm's 30 between SIGTERM and SIGKILL
SHARE, SHORT = 0.1, 0.1  # largest share of the time for checkpoints; seconds of a write that may exceed it
SPEED = 200e6  # assumed bytes per second of the disk until a checkpoint has measured it


class Checkpoint:
    """The checkpoint of a run in folder ``out``; ``identity``: all inputs of the run.

    ``executor``: the executor that wrote it, None without a checkpoint. A damaged one, and one of another run or other
    bfloat16 hardware (``units``), is renamed to ``.checkpoint.stale``.
    """

    def __init__(
        self,
        out: Path,
        identity: Identity,
        config: RunConfig | None = None,
        units: list[str] | None = None,
    ):
        self.out, self.identity, self.units = out, asdict(identity), units
        self.speed, self.written = SPEED, time.monotonic()
        try:
            self.journal = Journal.read(out / FOLDER)
            if differences := self._differences(self.journal.about, config):
                raise Damaged(f"it is of another run: {differences}")
        except Damaged as reason:
            self.set_aside(reason)

    def _differences(self, about: dict[str, Any], config: RunConfig | None) -> str:
        """Return the differences between the run of the checkpoint ``about`` and this run."""
        identity = about.get("identity", self.identity)
        different = {key for key in {**identity, **self.identity} if identity.get(key) != self.identity.get(key)}
        words = []
        if "description_digest" in different:
            settings = about["description"], config.as_json() if config else {}
            words = difference_texts(*({k: v for k, v in of.items() if k not in RunConfig.NEUTRAL} for of in settings))
            different.remove("description_digest")
        words = [*(f"another {key.removesuffix('_digest')}" for key in sorted(different)), *words]
        hardware = about.get("units"), self.units
        if None not in hardware and hardware[0] != hardware[1]:
            before, here = (" and ".join(units) or "a CPU without units for it" for units in hardware)
            words.append(f"bfloat16 was multiplied by {before}, here by {here}")
        return "; ".join(words)

    @property
    def executor(self) -> str | None:
        return self.journal.about.get("executor")

    def set_aside(self, reason: Damaged) -> None:
        print(f"{self.out / FOLDER} is set aside as {STALE}: {reason}", file=sys.stderr)
        shutil.rmtree(self.out / STALE, ignore_errors=True)
        (self.out / FOLDER).replace(self.out / STALE)
        self.journal = Journal(self.out / FOLDER)

    def restore(self, simulation: Simulation) -> dict[str, Any]:
        """Restore the state of ``simulation``; return the caller's progress.

        :raises Damaged: a vector differs from its checksum; part of the state is then set.
        """
        about, state = self.journal.about, simulation.state
        with self.journal.reader() as get:
            for name, value in simulation.server.items():
                value.copy_(get(f"server/{name}"))
            clients = np.array(about["clients"], dtype=np.int64)
            for name in state.store:
                state.load(name, clients, (get(f"client/{name}/{client}") for client in clients))
            if state.received is not None:
                state.received.load(about["received"], lambda round_: get(f"received/{round_}"))
        simulation.resume(about["simulation"], about["counts"])
        return about["progress"]

    def due(self, simulation: Simulation, planned: bool) -> bool:
        """Return whether to write a checkpoint after this round.

        A ``planned`` one is skipped if it would exceed ``SHARE`` of the time since the last. An unplanned one is due
        before changed clients of this and the next round take longer than ``GRACE`` to write, but only if they add up
        over rounds: without a server, every round changes the same clients.
        """
        state = simulation.state
        if planned:
            size = sum(value.nbytes for value in self._fresh(_vectors(simulation), state).values())
            if size <= self.speed * max(SHORT, SHARE * (time.monotonic() - self.written)):
                return True
        waiting = min(int(state.changed.sum()) + state.active, simulation.client_count)
        return waiting > state.active and waiting * state.row_bytes() > self.speed * GRACE

    def _fresh(self, vectors: dict[str, Tensor], state: ClientState) -> dict[str, Tensor]:
        """Return those of ``vectors`` that changed since the last checkpoint."""
        changed = {f"client/{name}/{client}" for client in np.flatnonzero(state.changed) for name in state.store}
        written_again = {*changed, *(key for key in vectors if key.startswith("server/"))}
        return {key: vectors[key] for key in vectors if key in written_again or key not in self.journal.index}

    def write(self, simulation: Simulation, progress: dict[str, Any]) -> int:
        """Write the changes since the last checkpoint and ``progress`` (JSON); return the bytes."""
        began = time.monotonic()
        state = simulation.state
        vectors = _vectors(simulation)
        fresh = self._fresh(vectors, state)
        about = {
            "identity": self.identity,
            "description": simulation.config.as_json(),
            **({} if self.units is None else {"units": self.units}),
            "executor": simulation.executor.name,
            "clients": np.flatnonzero(state.touched).tolist(),
            "received": state.received.rounds.tolist() if state.received is not None else None,
            "simulation": simulation.progress(),
            "counts": simulation.cost.counts,
            "progress": progress,
        }
        size = self.journal.commit(fresh, vectors, about)
        state.changed[:] = False
        self.written = time.monotonic()
        if size > self.speed / 10:  # smaller writes do not measure the disk
            self.speed = size / (self.written - began)
        return size

    def compact(self, simulation: Simulation) -> None:
        """Rewrite the valid vectors of mostly outdated files; a signal interrupts it without loss."""
        if keys := self.journal.scattered():
            vectors = _vectors(simulation)
            self.journal.commit({key: vectors[key] for key in keys}, vectors, self.journal.about, interruption.check)
            self.written = time.monotonic()

    def discard(self) -> None:
        for name in (FOLDER, STALE):
            shutil.rmtree(self.out / name, ignore_errors=True)


def _vectors(simulation: Simulation) -> dict[str, Tensor]:
    state = simulation.state
    vectors = {f"server/{name}": value for name, value in simulation.server.items()}
    for client in np.flatnonzero(state.touched):
        vectors |= {f"client/{name}/{client}": values[int(client)] for name, values in state.store.items()}
    if state.received is not None:
        vectors |= {f"received/{round_}": value for round_, value in state.received.snapshots.items()}
    return vectors
