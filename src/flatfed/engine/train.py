"""One training job: a run description in, ``metrics.csv``, ``model.safetensors`` and ``run.json`` out.

Needs torch, numpy and safetensors, nothing else, so that a run can be made on a bare GPU host and copied back;
decentralised runs need networkx too, which torch brings along.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import flatfed
from flatfed.engine import interruption, outputs, precision, together
from flatfed.engine.checkpoint import Checkpoint, Damaged
from flatfed.engine.inputs import load_data
from flatfed.engine.memory import reuse_memory
from flatfed.engine.progress import Progress, spent
from flatfed.engine.shortage import Shortage, told
from flatfed.engine.simulation import Simulation
from flatfed.engine.sizes import said
from flatfed.engine.together import Meeting
from flatfed.engine.trial import AUTO, trial
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_json
from flatfed.models import pretrained
from flatfed.runs import host, identity
from flatfed.runs import record as records

PULSE = 30.0  # seconds between two states of a run's lines so far, at least, but for those of a checkpoint


def pick_device(wanted: str) -> torch.device:
    """Return the device for ``auto``, ``cpu`` or ``cuda``; FlatFedError where cuda is asked for and absent."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise FlatFedError(
            "device: cuda was asked for, but torch sees no GPU. Use `--config device=cpu` (or auto), or check that "
            "CUDA_VISIBLE_DEVICES and the driver fit this build of torch"
        )
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


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
    ``meeting``: see :func:`train_together`.
    ``stop_after``: leave off after so many rounds of the whole run, unless these are all, with a checkpoint and the
    lines so far. Returns whether the run is finished.

    Goes on from the checkpoint in ``out`` if it is of this very run; otherwise sets it aside and starts anew. A run
    whose loss or weights stop being finite ends at that round: ``diverged_at`` in run.json, no later line in
    metrics.csv.

    SIGTERM or SIGINT stops it within a local step: what was done is written to the checkpoint, then Stopped is raised.

    Where memory runs out it goes on with fewer clients at a time, which is kept on resume and written to run.json
    (``rows``), or stops as if it were told to.

    Raises DataError when data or partition do not fit the description, FlatFedError for a missing device or a CPU
    without units for the run's bfloat16,
    :class:`~flatfed.engine.shortage.Shortage` and :class:`~flatfed.engine.interruption.Stopped`.
    """
    named = description["model"].get("weights")
    if (named is None) != (weights is None):
        given = f"the file {weights} was given" if weights is not None else "no file of them was given (--weights FILE)"
        raise DataError(f"model.weights of the run is {named!r}, but {given}")
    out = Path(out)
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
    label = "{protocol}/{split}/{algorithm}/seed{seed}".format(**description)
    if meeting is not None and outputs.finished(out, made_of):
        print(f"{label}: is there already", file=sys.stderr)
        outputs.touch(out)
        return True
    saved = Checkpoint(out, made_of, description, precision.units(description, place))

    def begun() -> Simulation:
        wanted = saved.executor or description["executor"][place.type]
        first = "sequential" if wanted == AUTO else wanted
        with told(place, "before the first round"):
            made = Simulation(description, data, dealt, place, first, pretrained_file=weights)
            if wanted == AUTO:
                made.trial = trial(made, meeting.trial if meeting is not None else None)
                if meeting is not None:
                    meeting.trial = made.trial
        return made

    simulation, found = begun(), {"lines": [], "sessions": []}
    resumed = saved.executor is not None
    if resumed:
        try:
            found = saved.restore(simulation)
        except Damaged as reason:
            saved.set_aside(reason)
            simulation, resumed = begun(), False
    if not resumed:
        outputs.forget_so_far(out)
    lines = found["lines"]
    sessions = [
        *found["sessions"],
        {"from_round": simulation.round, "began": outputs.now("microseconds"), **machine(place, threads)},
    ]
    if meeting is not None:
        meeting.join(simulation.local, sessions[-1])
    where = f"{sessions[-1]['host']['gpu'] or 'cpu'}, {threads} thread(s), {simulation.executor.name}"
    start = f"from round {simulation.round} of its checkpoint" if resumed else "from the start"
    if simulation.state.home == "file":
        size = simulation.state.row_bytes() * simulation.clients
        start += f"; {said(size)} of client state lie in a file in {tempfile.gettempdir()}, memory has too little free"
    goal = min(description["rounds"], stop_after or description["rounds"])
    print(f"{label}: {goal} rounds on {where}, {start}", file=sys.stderr)
    with interruption.heeded():
        try:
            with Progress(label, goal, simulation.round, out) as progress:
                diverged = _rounds(simulation, saved, lines, sessions, progress, goal)
            if diverged is None and simulation.round < description["rounds"]:
                saved.write(simulation, {"lines": lines, "sessions": sessions})
                outputs.write_so_far(out, simulation, lines, made_of, sessions)
                return False
            outputs.write(out, simulation, lines, made_of, sessions, diverged)
            if diverged is None:
                print(f"{label}: {spent(simulation.seconds)}", file=sys.stderr)
        except (interruption.Stopped, Shortage) as stopped:
            if simulation.whole:
                began = time.monotonic()
                size = saved.write(simulation, {"lines": lines, "sessions": sessions})
                outputs.write_so_far(out, simulation, lines, made_of, sessions)
                took = f"{size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s"
                text = f"checkpoint written ({took}), the same command goes on from it"
                why = stopped if isinstance(stopped, interruption.Stopped) else "stopped for want of memory"
                print(f"{label}: {why} after round {simulation.round}; {text}", file=sys.stderr)
            raise
    saved.discard()
    return True


def train_together(
    descriptions: Sequence[dict[str, Any]],
    dataset: str | os.PathLike[str],
    partitions: Sequence[str | os.PathLike[str]],
    outs: Sequence[str | os.PathLike[str]],
    **common: Any,
) -> None:
    """Train runs that differ in their seed alone in one process, all their clients as rows of one matrix.

    Every run has its ``partitions`` file and its folder of ``outs``, where it leaves the same files as alone; it gets
    the same numbers, too (:mod:`flatfed.engine.together`). One that is finished already is left as it is. Where one
    cannot go on, the others write their checkpoints and stop. ``common``: the other arguments of :func:`train`.

    Raises DataError where they differ in more, and what :func:`train` raises.
    """
    first = descriptions[0]
    for other in descriptions[1:]:
        differing = [key for key in {**first, **other} if key != "seed" and first.get(key) != other.get(key)]
        if differing:
            raise DataError(f"runs that train together may differ in their seed alone, not in {', '.join(differing)}")

    def work(description: dict[str, Any], *files: str | os.PathLike[str]) -> Callable[[Meeting], None]:
        return lambda meeting: train(description, dataset, *files, meeting=meeting, **common)

    together.go([work(*one) for one in zip(descriptions, partitions, outs, strict=True)])


def _rounds(
    simulation: Simulation, saved: Checkpoint, lines: list, sessions: list, progress: Progress, rounds: int
) -> int | None:
    """Train to the end of ``rounds``, adding to ``lines`` of metrics.csv; return the round that diverged, or None."""
    every = simulation.description["checkpoint_every"]
    watched = ("train_loss", f"{simulation.evaluate.unseen}_loss", "consistency")
    shown = time.monotonic()
    while simulation.round < rounds or simulation.pending is not None:
        with told(simulation.device, f"round {simulation.round + 1}"):
            line = simulation.advance()
        if line is not None and not all(math.isfinite(line[key]) for key in watched):
            print(f"{progress.label}: diverged at round {simulation.round}: {line}", file=sys.stderr)
            return simulation.round
        if line is not None:
            lines.append(line)
        if simulation.round < rounds and (simulation.round % every == 0 or saved.overdue(simulation)):
            saved.write(simulation, {"lines": lines, "sessions": sessions})
            saved.compact(simulation)
            shown = float("-inf")
        if simulation.round < rounds and time.monotonic() - shown >= PULSE:
            outputs.write_so_far(saved.out, simulation, lines, saved.identity, sessions)
            shown = time.monotonic()
        progress.round(simulation.round, line)
    return None


def set_up(threads: int) -> None:
    """Set what torch does on this machine: as the official code, TF32 on and cuDNN deterministic; memory is reused."""
    torch.set_num_threads(threads)
    # cuBLAS takes other algorithms from call to call where streams share its workspace; it reads this when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    reuse_memory()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.deterministic = True


def machine(place: torch.device, threads: int) -> dict[str, Any]:
    """Return what a session of training runs on: device, threads, versions and host, as run.json has them."""
    cuda = place.type == "cuda"
    return {
        "device": place.type,
        "threads": threads,
        "tf32": cuda and torch.backends.cudnn.allow_tf32,
        "versions": {
            "flatfed": flatfed.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "safetensors": safetensors.__version__,
        },
        "host": {
            "system": platform.platform(),
            "processor": host.processor(),
            "instructions": list(host.instructions()),
            "gpu": torch.cuda.get_device_name(place) if cuda else None,
        },
    }


def evaluate(
    run: str | os.PathLike[str],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
) -> dict[str, float]:
    """Return losses and accuracies of the finished run in folder ``run``, computed anew from its model.

    Raises DataError where the model cannot be read, or data or partition do not fit the run.
    """
    set_up(threads)
    run = Path(run)
    record = records.of(run)
    description = identity.today(record.description)
    place = pick_device(device)
    data, dealt = load_data(description, dataset, partition)
    for key, found in ("dataset_digest", data.digest), ("partition_digest", dealt.digest):
        if (its := getattr(record, key)) != found:
            raise DataError(f"{run / records.RECORD}: {key} is {its[:12]}, but the one given has {found[:12]}")
    record.hold(run, records.MODEL)
    simulation = Simulation(description, data, dealt, place, "sequential")
    try:
        weights = load_file(run / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise DataError(f"{run / 'model.safetensors'}: cannot be read as a model ({error})") from error
    return simulation.evaluate(simulation.weights.row(weights))
