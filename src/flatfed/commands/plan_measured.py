"""What was measured of runs: seconds of a round and memory, of finished runs and timings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed import algorithms
from flatfed.commands import run_record
from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs import timing as timings
from flatfed.runs.places import Places
from flatfed.runs.record import RunRecord
from flatfed.runs.timing import Timing


@dataclass(frozen=True)
class Measured:
    """One finished or timed run on some device; memory in bytes, None where it was not measured.

    ``row``: length of the rows that trained, dead taps left out; ``evaluation``: its share of the seconds.
    """

    description: dict[str, Any]
    seconds_per_round: float
    device: str
    machine: str
    parameters: int
    memory: int | None
    device_memory: int | None
    row: int | None = None
    evaluation: float | None = None


def measured(places: Places, scale: str) -> tuple[list[Measured], list[str]]:
    """Return what finished runs and timings of a ``scale`` measured, and lines on what is left out.

    Left out are files that are damaged and runs of algorithms that do not exist any more.
    """
    known, left_out, gone = [], [], Counter()
    for path in places.measurements(scale):
        try:
            about = _read(path)
            name = about.description["update"]["name"]
            if not algorithms.known(name):
                gone[name] += 1
                continue
            if (each := _seconds(about)) is not None:
                known.append(_measured(about, *each))
        except FileNotFoundError:
            continue  # it is being made again
        except DataError as problem:
            left_out.append(f"{problem}; left out. Delete it, and it is made again")
    for name, count in sorted(gone.items()):
        left_out.append(
            f"{places.results}/{scale}: {count} of algorithm {name!r}, which has no file any more; left out"
        )
    return known, left_out


def _read(path: Path) -> RunRecord | Timing:
    """Return the record, or the timing, in the file ``path``; DataError where it lacks what estimates are made from."""
    if path.name == records.RECORD:
        about = records.read(path)
        about.require(("seconds", "device", "host", "parameters"), path)
    else:
        about = timings.read(path)
    run_record.check_description(about, path)
    return about


def _seconds(about: RunRecord | Timing) -> tuple[float, float | None] | None:
    """Return the seconds of a round, and the share of evaluation in them, None where that is not known.

    None of a run that diverged, whose broken numbers may be slow ones, or that has no round yet.
    """
    if isinstance(about, Timing):
        return about.seconds_per_round, about.evaluation_seconds_per_round / about.seconds_per_round
    if about.diverged_at is not None or not about.rounds_done:
        return None
    # Seeds that trained together took all their time together.
    each = about.seconds / (about.together or 1) / about.rounds_done
    known = about.seconds and about.seconds_evaluation is not None
    return each, about.seconds_evaluation / about.seconds if known else None


def _measured(about: RunRecord | Timing, each: float, evaluation: float | None) -> Measured:
    """Return what a record, or a timing, says of a run's costs; a timing evaluates more than its run would."""
    evaluated = about.evaluated if isinstance(about, Timing) else {}
    description = {**about.description, "evaluation": about.description["evaluation"] | evaluated}
    machine = about.host.get("gpu" if about.device == "cuda" else "processor")
    memory = about.peak_memory_bytes, about.peak_device_memory_bytes
    return Measured(description, each, about.device, machine, about.parameters, *memory, about.row, evaluation)
