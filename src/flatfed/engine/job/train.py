"""One training job: a run description in, ``metrics.csv``, ``model.safetensors`` and ``run.json`` out.

Needs torch, numpy and safetensors, nothing else, so that a run can be made on a bare GPU host and copied back;
decentralised runs need networkx too, which torch brings along.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from flatfed.engine import precision, versions
from flatfed.engine.job import assembly, interruption
from flatfed.engine.job.checkpoint import Checkpoint, Damaged
from flatfed.engine.job.inputs import Identity, load_data
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.job.outputs import Outputs, now
from flatfed.engine.job.progress import Reporter, spent
from flatfed.engine.memory import shortage
from flatfed.engine.memory.sizes import in_units
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.seeds import Meeting
from flatfed.errors import DataError, Shortage
from flatfed.files import digest_json
from flatfed.models import pretrained
from flatfed.runs.record import run_name

PULSE = 30.0  # seconds, at least, from one writing of the lines so far to the next that no checkpoint asks for


def train(
    description: dict[str, Any],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
    weights: str | os.PathLike[str] | None = None,
    meeting: Meeting | None = None,
    stop_after: int | None = None,
    full_model: bool = False,
) -> bool:
    """Train the run ``description`` on ``dataset`` (a folder) dealt as ``partition`` (an .npz); write folder ``out``.

    ``weights`` is the file of the pre-trained weights that ``description["model"]["weights"]`` names, if it does.
    ``meeting``: where runs of other seeds train beside it (:func:`flatfed.engine.job.together.train_together`).
    ``stop_after``: leave off after so many rounds of the whole run, unless these are all, with a checkpoint and the
    lines so far. ``full_model``: keep dead taps (:mod:`flatfed.engine.speed.live`). Returns
    whether the run is finished.

    Goes on from the checkpoint in ``out`` if it is of this very run; otherwise sets it aside and starts anew. A run
    whose loss or weights are not finite in an evaluated round ends there: ``diverged_at`` in run.json, no line of that
    round in metrics.csv.

    SIGTERM or SIGINT stops it within a local step: what was done is written to the checkpoint, then Stopped is raised.

    Where memory runs out it goes on with fewer clients at a time, which is kept on resume and written to run.json
    (``rows``), or stops as if it were told to.

    Raises DataError when data or partition do not fit the description, FlatFedError for a missing device or a CPU
    without units for the run's bfloat16, :class:`~flatfed.errors.Shortage` and
    :class:`~flatfed.engine.job.interruption.Stopped`.
    """
    named = description["model"].get("weights")
    if (named is None) != (weights is None):
        given = f"the file {weights} was given" if weights is not None else "no file of them was given (--weights FILE)"
        raise DataError(f"model.weights of the run is {named!r}, but {given}")
    place = pick_device(device)
    set_up(threads)
    precision.check_units(description, place)
    data, dealt = load_data(description, dataset, partition)
    identity = Identity(
        description_digest=digest_json(description),
        partition_digest=dealt.digest,
        dataset_digest=data.digest,
        versions=versions.of_run(description),
        weights_digest=None if weights is None else pretrained.digest(weights),
    )
    outputs = Outputs(Path(out), identity)
    if meeting is not None and outputs.finished():
        print(f"{run_name(description)}: is there already", file=sys.stderr)
        outputs.touch()
        return True
    checkpoint = Checkpoint(Path(out), identity, description, precision.units(description, place))

    def assembled(executor: str) -> Simulation:
        more = {"pretrained_file": weights, "pause": interruption.check, "full_model": full_model, "meeting": meeting}
        return assembly.simulation(description, data, dealt, place, executor, **more)

    return Job(description, place, outputs, checkpoint, assembled).run(machine(place, threads), stop_after)


class Job:
    """One run in the making: its simulation, which ``assembled`` makes for an executor, and what it leaves on disk."""

    def __init__(
        self,
        description: dict[str, Any],
        place: torch.device,
        outputs: Outputs,
        checkpoint: Checkpoint,
        assembled: Callable[[str], Simulation],
    ):
        self.description, self.place, self.outputs, self.checkpoint = description, place, outputs, checkpoint
        self.assembled = assembled
        self.label = run_name(description)
        self.simulation, resumed = self._first_state()
        self.start = f"from round {self.simulation.round} of its checkpoint" if resumed else "from the start"

    def run(self, session: dict[str, Any], stop_after: int | None) -> bool:
        """Train to the end, or until as many rounds are done; return whether the run is finished."""
        run, rounds, sessions = self.simulation, self.description["rounds"], self.outputs.sessions
        sessions.append({"from_round": run.round, "began": now("microseconds"), **session})
        goal = min(rounds, stop_after or rounds)
        print(f"{self.label}: {goal} rounds on {self._where()}", file=sys.stderr)
        with interruption.heeded():
            try:
                with Reporter(self.label, goal, run.round, self.outputs.out) as reporter:
                    diverged = self._rounds(reporter, goal)
                if diverged is None and run.round < rounds:
                    self._write_state()
                    return False
                self.outputs.write(run, diverged)
                if diverged is None:
                    print(f"{self.label}: {spent(run.clock.seconds)}", file=sys.stderr)
            except (interruption.Stopped, Shortage) as stopped:
                self._stop(stopped)
                raise
        self.checkpoint.discard()
        return True

    def _first_state(self) -> tuple[Simulation, bool]:
        """Return the simulation and True as the checkpoint has it, or False before its first round."""
        simulation = self._begin()
        if self.checkpoint.executor is not None:
            try:
                self.outputs.resume(**self.checkpoint.restore(simulation))
                return simulation, True
            except Damaged as reason:
                self.checkpoint.set_aside(reason)
                simulation = self._begin()
        self.outputs.forget_so_far()
        return simulation, False

    def _begin(self) -> Simulation:
        """Return the simulation before its first round, with the checkpoint's executor or the description's."""
        executor = self.checkpoint.executor or self.description["executor"][self.place.type]
        with shortage.explained(self.place, "before the first round"):
            return self.assembled(executor)

    def _where(self) -> str:
        """Say on what it trains, by which executor, from which round on."""
        run, session = self.simulation, self.outputs.sessions[-1]
        device = session["host"]["gpu"] or "cpu"
        where = f"{device}, {session['threads']} thread(s), {run.executor.name}, {self.start}"
        if run.state.home == "file":
            size = in_units(run.state.row_bytes() * run.clients)
            where += f"; {size} of client state lie in a file in {tempfile.gettempdir()}, memory has too little free"
        return where

    def _rounds(self, reporter: Reporter, goal: int) -> int | None:
        """Train to the end of round ``goal``, adding to the lines; return the round that diverged, or None."""
        run, every = self.simulation, self.description["checkpoint_every"]
        watched = ("train_loss", f"{run.evaluate.unseen}_loss", "consistency")
        written = time.monotonic()
        while run.round < goal or run.pending is not None:
            with shortage.explained(self.place, f"round {run.round + 1}"):
                line = shortage.advance(run)
            if run.local_update.together is not None:
                self.outputs.sessions[-1]["together"] = run.local_update.together
            if line is not None and not all(math.isfinite(line[key]) for key in watched):
                print(f"{self.label}: diverged at round {run.round}: {line}", file=sys.stderr)
                return run.round
            if line is not None:
                self.outputs.lines.append(line)
            if run.round < goal and (run.round % every == 0 or self.checkpoint.overdue(run)):
                self._write_state()
                self.checkpoint.compact(run)
                written = time.monotonic()
            elif run.round < goal and time.monotonic() - written >= PULSE:
                self.outputs.write_so_far(run)
                written = time.monotonic()
            reporter.round(run.round, line)
        return None

    def _write_state(self) -> int:
        """Write a checkpoint and the lines so far; return the checkpoint's bytes."""
        progress = {"lines": self.outputs.lines, "sessions": self.outputs.sessions}
        size = self.checkpoint.write(self.simulation, progress)
        self.outputs.write_so_far(self.simulation)
        return size

    def _stop(self, reason: Exception) -> None:
        """Write a checkpoint and say so, unless the state is inconsistent."""
        if not self.simulation.state.consistent:
            return
        began = time.monotonic()
        size = self._write_state()
        took = f"{size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s"
        text = f"checkpoint written ({took}), the same command goes on from it"
        why = reason if isinstance(reason, interruption.Stopped) else "stopped for want of memory"
        print(f"{self.label}: {why} after round {self.simulation.round}; {text}", file=sys.stderr)
