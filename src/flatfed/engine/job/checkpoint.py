"""Checkpoints: of exactly one run, as of a whole round, and never trusted otherwise.

One is a journal (:mod:`flatfed.engine.job.journal`) in a hidden folder beside the outputs of the run: the server's
vectors and those of clients that took part since the one before. Random streams need no state, they are keyed.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from flatfed import forms
from flatfed.engine.job import interruption
from flatfed.engine.job.inputs import Identity
from flatfed.engine.job.journal import MANIFEST, Damaged, Journal
from flatfed.engine.simulation import Simulation
from flatfed.runs.identity import NEUTRAL_KEYS, difference_texts

FOLDER = ".checkpoint"
STALE = f"{FOLDER}.stale"
NAME = f"{FOLDER}/{MANIFEST}"

#: Seconds that may be needed to write what is not written yet. Slurm gives 30 from SIGTERM to SIGKILL, of which the
#: local step that is under way takes some, and so do the rows of the clients of the round that is stopped.
GRACE = 10.0

#: Bytes a second that the disk is taken to write, until a checkpoint has measured it.
SPEED = 200e6


class Checkpoint:
    """The checkpoint of a run in folder ``out``; ``identity``: all that the run is made of.

    ``executor`` that it was made with, None if there is none of this run: one of another run (other parameters, code,
    data) or a damaged one is set aside as ``.checkpoint.stale``, and so is one in bfloat16 of other ``units``
    (:func:`flatfed.engine.precision.units`), whose sums go on in another order.
    """

    def __init__(
        self,
        out: Path,
        identity: Identity,
        description: dict[str, Any] | None = None,
        units: list[str] | None = None,
    ):
        self.out, self.identity, self.units = out, forms.plain(identity), units
        self.speed = SPEED
        try:
            self.journal = Journal.read(out / FOLDER)
            if differences := self._differences(self.journal.about, description or {}):
                raise Damaged(f"it is of another run: {differences}")
        except Damaged as reason:
            self.set_aside(reason)

    def _differences(self, about: dict[str, Any], description: dict[str, Any]) -> str:
        """Return in what the run of the checkpoint ``about`` is another than this one, "" where it is not."""
        theirs = about.get("identity", self.identity)
        different = {key for key in {**theirs, **self.identity} if theirs.get(key) != self.identity.get(key)}
        words = []
        if "description_digest" in different:
            words = difference_texts(*(_without_neutral_keys(each) for each in (about["description"], description)))
            different.remove("description_digest")
        words = [*(f"another {key.removesuffix('_digest')}" for key in sorted(different)), *words]
        its, ours = about.get("units"), self.units
        if its != ours and its is not None and ours is not None:
            its, ours = (" and ".join(units) or "a CPU without units for it" for units in (its, ours))
            words.append(f"bfloat16 was multiplied by {its}, here by {ours}")
        return "; ".join(words)

    @property
    def executor(self) -> str | None:
        return self.journal.about.get("executor")

    def set_aside(self, reason: Damaged) -> None:
        """Begin anew, and keep what is there under another name."""
        print(f"{self.out / FOLDER} is set aside as {STALE}: {reason}", file=sys.stderr)
        shutil.rmtree(self.out / STALE, ignore_errors=True)
        (self.out / FOLDER).replace(self.out / STALE)
        self.journal = Journal(self.out / FOLDER)

    def restore(self, simulation: Simulation) -> dict[str, Any]:
        """Set the state of ``simulation`` to that of the checkpoint; return the caller's progress.

        Raises Damaged, with part of the state set, where a vector is not what was written.
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

    def overdue(self, simulation: Simulation) -> bool:
        """Return whether clients of this round and the next take longer to write than a signal's grace, together only.

        Where every round changes the same clients, as without a server, nothing adds up.
        """
        state = simulation.state
        waiting = min(int(state.changed.sum()) + state.active, simulation.clients)
        return waiting > state.active and waiting * state.row_bytes() > self.speed * GRACE

    def write(self, simulation: Simulation, progress: dict[str, Any]) -> int:
        """Write what changed in ``simulation`` since the last checkpoint, and ``progress`` (JSON); return the bytes."""
        began = time.monotonic()
        state = simulation.state
        vectors = _vectors(simulation)
        changed = {f"client/{name}/{client}" for client in np.flatnonzero(state.changed) for name in state.store}
        fresh = {
            key: value
            for key, value in vectors.items()
            if key in changed or key not in self.journal.index or key.startswith("server/")
        }
        about = {
            "identity": self.identity,
            "description": simulation.description,
            **({} if self.units is None else {"units": self.units}),
            "executor": simulation.executor.name,
            "clients": np.flatnonzero(state.touched).tolist(),
            "received": state.received.rounds.tolist() if state.received is not None else None,
            "simulation": simulation.progress(),
            "counts": simulation.cost.counts,
            "progress": progress,
        }
        written = self.journal.commit(fresh, vectors, about)
        state.changed[:] = False
        if written > self.speed:  # less says nothing about the disk
            self.speed = written / (time.monotonic() - began)
        return written

    def compact(self, simulation: Simulation) -> None:
        """Bring together what is left in files that are mostly of the past; a signal stops it, and nothing is lost."""
        if keys := self.journal.scattered():
            vectors = _vectors(simulation)
            again = {key: vectors[key] for key in keys}
            self.journal.commit(again, vectors, self.journal.about, interruption.check)

    def discard(self) -> None:
        """Remove the checkpoint of a finished run, and one that was set aside."""
        for name in (FOLDER, STALE):
            shutil.rmtree(self.out / name, ignore_errors=True)


def _without_neutral_keys(description: dict[str, Any]) -> dict[str, Any]:
    """Return a description without the keys that change no number."""
    return {key: value for key, value in description.items() if key not in NEUTRAL_KEYS}


def _vectors(simulation: Simulation) -> dict[str, Tensor]:
    """Return all vectors of ``simulation`` by name, as they lie in memory."""
    state = simulation.state
    vectors = {f"server/{name}": value for name, value in simulation.server.items()}
    for client in np.flatnonzero(state.touched):
        vectors |= {f"client/{name}/{client}": values[int(client)] for name, values in state.store.items()}
    if state.received is not None:
        vectors |= {f"received/{round_}": value for round_, value in state.received.snapshots.items()}
    return vectors
