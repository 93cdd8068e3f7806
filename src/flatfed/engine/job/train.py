"""One training job: it reads the settings of a run and writes ``metrics.csv``, ``model.safetensors`` and ``run.json``.

It needs torch, numpy, safetensors and pydantic, and networkx for decentralised runs.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from flatfed import algorithms
from flatfed.engine.callbacks import Callback, digests, of_user
from flatfed.engine.checks import contract, first_round, repeats
from flatfed.engine.job import assembly, interruption, memory
from flatfed.engine.job.checkpoint import Checkpoint, Damaged, remove_leftover
from flatfed.engine.job.machine import check_bfloat16, machine, pick_device, set_up
from flatfed.engine.job.outputs import Identity, Outputs, now
from flatfed.engine.job.progress import time_spent
from flatfed.engine.job.reporter import Reporter, say
from flatfed.engine.probe import Probe
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.live import LiveWeights
from flatfed.errors import DataError, Shortage
from flatfed.files import digest_json
from flatfed.models import pretrained
from flatfed.runs import versions
from flatfed.runs.paths import DEFAULT
from flatfed.runs.run_config import RunConfig


def train(
    config: RunConfig,
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
    weights: str | os.PathLike[str] | None = None,
    stop_after: int | None = None,
    full_model: bool = False,
    since: float = math.inf,
) -> bool:
    """Train the run ``config`` on a ``dataset`` (folder) and ``partition`` (.npz); write folder ``out``.

    ``weights``: file of the run's pre-trained weights, by default that in resources/. ``stop_after``: stop after this
    number of the run's rounds, with a checkpoint. ``full_model``: keep dead taps. Returns whether the run is finished.

    An equal run (deciding settings, digests, versions) that finished ``since`` a time, by default none, is not trained
    again: its files are linked back from a hidden folder.

    It resumes from a checkpoint of the same run. A run whose loss or weights are not finite in an evaluated round ends
    there: ``diverged_at`` in run.json, and no line of that round. SIGTERM, SIGINT or SIGHUP stops it before the next
    local step or batch; it drops an unfinished round and writes a checkpoint. If memory runs out, it stops with a
    checkpoint; ``rows`` and ``state`` of the run may change before it resumes.

    :raises DataError: data or partition do not fit the run.
    :raises FlatFedError: a missing device, or a CPU without units for the run's bfloat16; Shortage and Stopped.
    """
    named = config.model.weights
    if named is None and weights is not None:
        raise DataError(f"model.weights of the run is absent, but there is the file {weights}")
    weights = weights or (DEFAULT.weights(named) if named else None)
    torch_device = pick_device(device)
    set_up(threads)
    check_bfloat16(config, torch_device)
    data, members = assembly.load_data(config, dataset, partition)
    identity = Identity(
        description_digest=digest_json(config.as_json()),
        partition_digest=members.digest,
        dataset_digest=data.digest,
        versions=versions.of_run(config),
        weights_digest=pretrained.digest(named, weights) if named else None,
    )
    outputs = Outputs(Path(out), identity, {"train": data.train, "test": data.test})
    if record := outputs.finished_record(config, since):
        outputs.link()
        remove_leftover(Path(out), record.sessions)
        say(f"{config.ids.name}: finished already, {record.finished}")
        return True
    checkpoint = Checkpoint(Path(out), identity, config)
    options = {"pretrained_file": weights, "pause": interruption.check, "full_model": full_model}
    assemble = partial(assembly.simulation, config, data, members, torch_device, **options)
    job = Job(config, torch_device, outputs, checkpoint, assemble)
    return job.run({**machine(torch_device, threads), **digests()}, stop_after)


@dataclass
class Job:
    """One run: its simulation, which ``assemble`` makes for an executor, and its files."""

    config: RunConfig
    device: torch.device
    outputs: Outputs
    checkpoint: Checkpoint
    assemble: Callable[[str], Simulation]

    def __post_init__(self):
        self.label = self.config.ids.name
        self._begin()

    def run(self, session: dict[str, Any], stop_after: int | None) -> bool:
        """Train to the end, or until ``stop_after`` rounds; return whether the run is finished."""
        simulation, rounds, sessions = self.simulation, self.config.rounds, self.outputs.sessions
        sessions.append({"from_round": simulation.round, "began": now("microseconds"), **session})
        goal = min(rounds, stop_after or rounds)
        device, threads = session["host"]["gpu"] or "cpu", session["threads"]
        where = f"{device}, {threads} thread(s), {simulation.executor.name}, {self.start}"
        if simulation.state.home == "file":
            where += f"; client state is in a file in {tempfile.gettempdir()}"
        say(f"{self.label}: {goal} rounds on {where}")
        with interruption.signals_noted():
            try:
                with Reporter(self.label, goal, simulation.round) as reporter:
                    self._train([*self.callbacks.values(), reporter], goal)
                if simulation.round < rounds and self.outputs.diverged_at is None:
                    self._write_state()
                    return False
                with memory.explained(self.device, "after the last round"):
                    for callback in self.callbacks.values():
                        callback.finish(simulation)
            except (interruption.Stopped, Shortage) as stopped:
                self._stop(stopped)
                raise
        if self.outputs.diverged_at is None:
            say(f"{self.label}: {time_spent(simulation.clock.seconds)}")
        return True

    def _train(self, callbacks: list[Callback], goal: int) -> None:
        """Train to the end of round ``goal``, or to a round with numbers that are not finite."""
        simulation, outputs = self.simulation, self.outputs
        watched = ("train_loss", f"{simulation.evaluate.unseen}_loss", "consistency")
        checks = first_round.checked(simulation)
        while outputs.diverged_at is None and (simulation.round < goal or simulation.pending is not None):
            starts = simulation.pending is None  # otherwise only the evaluation of the last round is missing
            with memory.explained(self.device, f"round {simulation.round + starts}"):
                if starts:
                    clients = simulation.sample()
                    for callback in callbacks:
                        callback.before_round(simulation, clients)
                with checks, repeats.checked(simulation):
                    line = simulation.advance()
            checks = nullcontext()
            if line is not None and not all(math.isfinite(line[key]) for key in watched):
                say(f"{self.label}: diverged at round {simulation.round}: {line}")
                outputs.diverged_at = simulation.round
                break
            with memory.explained(self.device, f"after round {simulation.round}"):
                for callback in callbacks:
                    callback.after_round(simulation, line)

    def _begin(self) -> None:
        """Make the simulation and its callbacks, and restore the checkpoint, if there is one."""
        executor = self.checkpoint.executor or assembly.executor_name(self.config, self.device)
        with memory.explained(self.device, "before the first round"):
            self.simulation = simulation = self.assemble(executor)
        if algorithms.own_file(self.config.update.name) and isinstance(simulation.weights, LiveWeights):
            contract.check_whole_rows(self.config.update.name, update=self.config.update.as_json())
        self.callbacks = {"Outputs": self.outputs, **of_user(), "Checkpoint": self.checkpoint}
        if self.config.probe:
            probe = Probe()
            self.callbacks = {"Probe": probe, **self.callbacks}
            self.outputs.probes = probe.measures
        self.checkpoint.callbacks = self.callbacks
        if self.checkpoint.executor is None:
            self.start = "from the start"
            self.outputs.forget_so_far()
            return
        try:
            with memory.explained(self.device, "while resuming"):
                self.checkpoint.restore(simulation)
            self.start = f"from round {simulation.round} of its checkpoint"
        except Damaged as reason:
            self.checkpoint.set_aside(reason)
            self.simulation, self.callbacks, simulation = None, {}, None  # frees the memory for another one
            self._begin()

    def _write_state(self) -> int:
        size = self.checkpoint.write(self.simulation)
        self.outputs.write_so_far(self.simulation)
        return size

    def _stop(self, reason: Exception) -> None:
        cause = reason if isinstance(reason, interruption.Stopped) else "stopped for lack of memory"
        began = time.monotonic()
        size = self._write_state()
        written = f"{size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s"
        text = f"checkpoint written ({written}), the same command resumes from it"
        say(f"{self.label}: {cause} after round {self.simulation.round}; {text}")
