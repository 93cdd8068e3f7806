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

from flatfed.engine import precision
from flatfed.engine.job import assembly, interruption, outputs
from flatfed.engine.job.checkpoint import Checkpoint, Damaged
from flatfed.engine.job.inputs import load_data
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.job.progress import Progress, spent
from flatfed.engine.memory import shortage
from flatfed.engine.memory.shortage import Shortage
from flatfed.engine.memory.sizes import said
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.fastest import AUTO, trial
from flatfed.engine.speed.seeds import Meeting
from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.models import pretrained
from flatfed.runs.record import run_name

PULSE = 30.0  # seconds between two states of a run's lines so far, at least, but for those of a checkpoint


def train(
    description: dict[str, Any],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
    code_digest: str = "",
    weights: str | os.PathLike[str] | None = None,
    meeting: Meeting | None = None,
    stop_after: int | None = None,
) -> bool:
    """Train the run ``description`` on ``dataset`` (a folder) dealt as ``partition`` (an .npz); write folder ``out``.

    ``weights`` is the file of the pre-trained weights that ``description["model"]["weights"]`` names, if it does.
    ``meeting``: where runs of other seeds train beside it (:func:`flatfed.engine.job.together.train_together`).
    ``stop_after``: leave off after so many rounds of the whole run, unless these are all, with a checkpoint and the
    lines so far. Returns whether the run is finished.

    Goes on from the checkpoint in ``out`` if it is of this very run; otherwise sets it aside and starts anew. A run
    whose loss or weights stop being finite ends at that round: ``diverged_at`` in run.json, no later line in
    metrics.csv.

    SIGTERM or SIGINT stops it within a local step: what was done is written to the checkpoint, then Stopped is raised.

    Where memory runs out it goes on with fewer clients at a time, which is kept on resume and written to run.json
    (``rows``), or stops as if it were told to.

    Raises DataError when data or partition do not fit the description, FlatFedError for a missing device or a CPU
    without units for the run's bfloat16, :class:`~flatfed.engine.memory.shortage.Shortage` and
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
    made_of = {
        "description": digest_json(description),
        "code": code_digest,
        "partition": dealt.digest,
        "dataset": data.digest,
    }
    if weights is not None:
        made_of["weights"] = pretrained.digest(weights)
    if meeting is not None and outputs.finished(Path(out), made_of):
        print(f"{run_name(description)}: is there already", file=sys.stderr)
        outputs.touch(Path(out))
        return True
    saved = Checkpoint(Path(out), made_of, description, precision.units(description, place))

    def begun(executor: str) -> Simulation:
        more = {"pretrained_file": weights, "pause": interruption.check}
        return assembly.simulation(description, data, dealt, place, executor, **more)

    return Job(description, place, saved, begun, meeting).run(machine(place, threads), stop_after)


class Job:
    """One run in the making: its simulation, the lines of metrics.csv so far, the sessions that it was trained in."""

    def __init__(
        self,
        description: dict[str, Any],
        place: torch.device,
        saved: Checkpoint,
        begun: Callable[[str], Simulation],
        meeting: Meeting | None,
    ):
        self.description, self.place, self.saved, self.begun, self.meeting = description, place, saved, begun, meeting
        self.label = run_name(description)
        self.lines: list[dict[str, Any]] = []
        self.sessions: list[dict[str, Any]] = []
        self.simulation, resumed = self._first_state()
        self.start = f"from round {self.simulation.round} of its checkpoint" if resumed else "from the start"

    def run(self, session: dict[str, Any], stop_after: int | None) -> bool:
        """Train to the end, or until as many rounds are done; return whether the run is finished."""
        run, rounds = self.simulation, self.description["rounds"]
        self.sessions.append({"from_round": run.round, "began": outputs.now("microseconds"), **session})
        if self.meeting is not None:
            self.meeting.join(run, self.sessions[-1])
        goal = min(rounds, stop_after or rounds)
        print(f"{self.label}: {goal} rounds on {self._where()}", file=sys.stderr)
        with interruption.heeded():
            try:
                with Progress(self.label, goal, run.round, self.saved.out) as progress:
                    diverged = self._rounds(progress, goal)
                if diverged is None and run.round < rounds:
                    self._write_state()
                    return False
                outputs.write(self.saved.out, run, self.lines, self.saved.identity, self.sessions, diverged)
                if diverged is None:
                    print(f"{self.label}: {spent(run.clock.seconds)}", file=sys.stderr)
            except (interruption.Stopped, Shortage) as stopped:
                self._stop(stopped)
                raise
        self.saved.discard()
        return True

    def _first_state(self) -> tuple[Simulation, bool]:
        """Return the simulation as the checkpoint has it, or before its first round, and which of both."""
        simulation = self._begin()
        if self.saved.executor is not None:
            try:
                found = self.saved.restore(simulation)
                self.lines, self.sessions = found["lines"], found["sessions"]
                return simulation, True
            except Damaged as reason:
                self.saved.set_aside(reason)
                simulation = self._begin()
        outputs.forget_so_far(self.saved.out)
        return simulation, False

    def _begin(self) -> Simulation:
        """Return the simulation before its first round, with the checkpoint's executor, the description's or, if that
        is ``auto``, the fastest."""
        wanted = self.saved.executor or self.description["executor"][self.place.type]
        with shortage.told(self.place, "before the first round"):
            made = self.begun("sequential" if wanted == AUTO else wanted)
            if wanted == AUTO:
                made.trial = trial(made, self.meeting.trial if self.meeting is not None else None)
                if self.meeting is not None:
                    self.meeting.trial = made.trial
        return made

    def _where(self) -> str:
        """Say on what it trains, by which executor, from which round on."""
        run, session = self.simulation, self.sessions[-1]
        said_ = f"{session['host']['gpu'] or 'cpu'}, {session['threads']} thread(s), {run.executor.name}, {self.start}"
        if run.state.home == "file":
            size = said(run.state.row_bytes() * run.clients)
            said_ += f"; {size} of client state lie in a file in {tempfile.gettempdir()}, memory has too little free"
        return said_

    def _rounds(self, progress: Progress, goal: int) -> int | None:
        """Train to the end of round ``goal``, adding to the lines; return the round that diverged, or None."""
        run, every = self.simulation, self.description["checkpoint_every"]
        watched = ("train_loss", f"{run.evaluate.unseen}_loss", "consistency")
        shown = time.monotonic()
        while run.round < goal or run.pending is not None:
            with shortage.told(self.place, f"round {run.round + 1}"):
                line = shortage.advance(run)
            if line is not None and not all(math.isfinite(line[key]) for key in watched):
                print(f"{self.label}: diverged at round {run.round}: {line}", file=sys.stderr)
                return run.round
            if line is not None:
                self.lines.append(line)
            if run.round < goal and (run.round % every == 0 or self.saved.overdue(run)):
                self.saved.write(run, self._progress())
                self.saved.compact(run)
                shown = float("-inf")
            if run.round < goal and time.monotonic() - shown >= PULSE:
                outputs.write_so_far(self.saved.out, run, self.lines, self.saved.identity, self.sessions)
                shown = time.monotonic()
            progress.round(run.round, line)
        return None

    def _progress(self) -> dict[str, Any]:
        return {"lines": self.lines, "sessions": self.sessions}

    def _write_state(self) -> int:
        """Write a checkpoint and the lines so far; return the checkpoint's bytes."""
        size = self.saved.write(self.simulation, self._progress())
        outputs.write_so_far(self.saved.out, self.simulation, self.lines, self.saved.identity, self.sessions)
        return size

    def _stop(self, reason: Exception) -> None:
        """Write what was done, and say so, unless the state is of no one moment."""
        if self.simulation.halfway:
            return
        began = time.monotonic()
        size = self._write_state()
        took = f"{size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s"
        text = f"checkpoint written ({took}), the same command goes on from it"
        why = reason if isinstance(reason, interruption.Stopped) else "stopped for want of memory"
        print(f"{self.label}: {why} after round {self.simulation.round}; {text}", file=sys.stderr)
