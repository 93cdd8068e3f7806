"""What a run leaves in its folder, written whole: finished, or as far as it is; and the run that it replaces."""

from __future__ import annotations

import csv
import datetime
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from flatfed.engine.lines import columns
from flatfed.engine.simulation import Simulation
from flatfed.errors import DataError
from flatfed.files import remove_parts, write_whole
from flatfed.runs import record as records
from flatfed.runs.record import FILES, LINES_SO_FAR, METRICS, MODEL, RECORD, RECORD_SO_FAR, RunRecord

PREVIOUS = ".previous"  # folder in a run's, of the finished run that it replaced


def write(
    out: Path,
    simulation: Simulation,
    lines: list[dict[str, Any]],
    identity: dict[str, str],
    sessions: list[dict[str, Any]],
    diverged: int | None,
) -> None:
    """Write metrics.csv, model.safetensors and, last, run.json; a run that they replace is kept in ``.previous``."""
    keep(out, identity, sessions)
    for name in (*FILES, LINES_SO_FAR, RECORD_SO_FAR):
        remove_parts(out / name)
    _write_lines(out / METRICS, simulation, lines)
    models = simulation.algorithm.evaluated(simulation.server)
    weights = simulation.weights.tensors(next(iter(models.values()))[0])
    with write_whole(out / MODEL) as file:
        file.write(save({name: value.cpu().contiguous() for name, value in weights.items()}))
    also = {}
    for name in list(models)[1:] if diverged is None else ():
        also[name] = simulation.evaluate(models[name][0])
    record = _record(simulation, lines, identity, sessions, diverged)
    records.write(out / RECORD, replace(record, also=also, finished=now()), (out / METRICS, out / MODEL))
    forget_so_far(out)


def forget_so_far(out: Path) -> None:
    """Remove what :func:`write_so_far` left: the run is finished, or another begins."""
    for name in (RECORD_SO_FAR, LINES_SO_FAR):
        (out / name).unlink(missing_ok=True)


def write_so_far(
    out: Path,
    simulation: Simulation,
    lines: list[dict[str, Any]],
    identity: dict[str, str],
    sessions: list[dict[str, Any]],
) -> None:
    """Write what the run has come to, for whoever looks on: no finished run's files, and no part of its checkpoint.

    Lines may be ahead of the checkpoint: a run that is killed makes those rounds again, and writes them again.
    """
    _write_lines(out / LINES_SO_FAR, simulation, lines)
    record = _record(simulation, lines, identity, sessions, None)
    records.write(out / RECORD_SO_FAR, replace(record, written=now()), (out / LINES_SO_FAR,))


def _write_lines(path: Path, simulation: Simulation, lines: list[dict[str, Any]]) -> None:
    with write_whole(path, "w") as file:
        names = list(lines[0]) if lines else columns(simulation.evaluate.unseen)
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _record(
    simulation: Simulation,
    lines: list[dict[str, Any]],
    identity: dict[str, str],
    sessions: list[dict[str, Any]],
    diverged: int | None,
) -> RunRecord:
    """Return what made the run, and what it took, as far as it is."""
    description, place = simulation.description, simulation.device
    cuda = place.type == "cuda"
    return RunRecord(
        description=description,
        description_digest=identity["description"],
        partition_digest=identity["partition"],
        dataset_digest=identity["dataset"],
        images=simulation.counted,
        code_digest=identity["code"],
        weights_digest=identity.get("weights"),
        rounds_done=lines[-1]["round"] if lines else 0,
        diverged_at=diverged,
        probes=simulation.probes,
        executor=simulation.executor.name,
        rows=simulation.rows,
        evaluated_together=simulation.evaluate.batch_size,
        row=simulation.layout.size,
        executor_trial=simulation.trial,
        precision=description["precision"],
        parameters=simulation.weights.parameters,
        local_steps=simulation.cost.counts["local_steps"],
        gradient_evaluations=simulation.cost.counts["gradient_evaluations"],
        stored_vectors=simulation.algorithm.stored_vectors(),
        spectral_gap=simulation.topology.spectral_gap() if simulation.topology else None,
        seconds=round(sum(simulation.clock.seconds.values()), 3),
        seconds_training=round(simulation.clock.seconds["training"], 3),
        seconds_evaluation=round(simulation.clock.seconds["evaluation"], 3),
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        peak_device_memory_bytes=torch.cuda.max_memory_allocated(place) if cuda else None,
        client_state=simulation.state.home,
        **{key: value for key, value in sessions[-1].items() if key not in ("from_round", "began")},
        sessions=sessions,
    )


def now(timespec: str = "seconds") -> str:
    """Return the day and time in UTC, as records have them."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)


def finished(out: Path, identity: dict[str, str]) -> bool:
    """Return whether folder ``out`` holds the finished run of this very ``identity``."""
    try:
        there = records.read(out / RECORD)
        there.check_files(out, METRICS, MODEL)
    except (OSError, DataError):  # none, or damaged: what lies beside it may still be of use
        return False
    whole = all((out / name).exists() for name in FILES)
    return whole and all(getattr(there, f"{key}_digest") == value for key, value in identity.items())


def touch(out: Path) -> None:
    """Make the finished run in folder ``out`` as new as one that was trained now."""
    for name in FILES:
        os.utime(out / name)


def _began(sessions: list[dict[str, Any]]) -> str | None:
    """Return when a run began, None of one that an earlier version began."""
    return sessions[0].get("began")


def keep(out: Path, identity: dict[str, str], sessions: list[dict[str, Any]]) -> None:
    """Have ``.previous`` hold the finished run in folder ``out``, if there is one, without moving it away.

    One of the same ``identity`` that began when ``sessions`` did is this very run, ended after its last file and before
    its checkpoint was removed. One that was forced to be made again began later: it may differ, and is kept.
    """
    if not (out / RECORD).exists():
        return
    if finished(out, identity) and _began(records.read(out / RECORD).sessions) == _began(sessions):
        return
    staged, kept = out / f"{PREVIOUS}.part", out / PREVIOUS
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    for name in FILES:
        if (out / name).exists():
            try:
                os.link(out / name, staged / name)
            except OSError:  # a file system without links
                shutil.copy2(out / name, staged / name)
    shutil.rmtree(kept, ignore_errors=True)
    staged.rename(kept)
