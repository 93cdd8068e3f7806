"""Measured seconds of a round and memory: of finished runs here, else of published runs of the same protocol."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed import gpus
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run
from flatfed.runs import record as records

#: The runs that come with FlatFed, finished or not.
PUBLISHED = configuration.HOME / "results/published"


@dataclass(frozen=True)
class Measured:
    """Measurements of one run: seconds of a round, the machine, peak memory in bytes on host and device.

    A memory is 0 where the record has none.
    """

    description: dict[str, Any]
    seconds_per_round: float
    machine: str = ""
    memory: tuple[int, int] = (0, 0)
    published: bool = False

    def likeness(self, run: Run) -> tuple[bool, ...]:
        """Return what it has in common with ``run``, the most important first: the algorithm, this place, the split."""
        same = self.description["update"]["name"] == run.description["update"]["name"]
        return same, not self.published, self.description["split"] == run.split


class Measurements:
    """Measurements of ``runs`` on a kind of ``device`` ("cpu", "cuda"), and the nearest of them to a run."""

    def __init__(self, runs: Iterable[Measured], device: str):
        self.device = device
        self._of_kind = defaultdict(list)
        for past in runs:
            self._of_kind[_kind(past.description)].append(past)

    def nearest(self, run: Run) -> list[Measured]:
        """Return the measurements of runs of the protocol of ``run`` that are most alike, [] if there are none."""
        of_kind = self._of_kind[_kind(run.description)]
        best = max((past.likeness(run) for past in of_kind), default=None)
        return [past for past in of_kind if past.likeness(run) == best]

    def seconds(self, run: Run) -> float | None:
        """Return the mean seconds of a round of :meth:`nearest`, None if there are none."""
        near = self.nearest(run)
        return statistics.fmean(past.seconds_per_round for past in near) if near else None

    def memory(self, run: Run) -> tuple[int, int]:
        """Return the peak memory in bytes (host, device) by :meth:`nearest`, 0 where it was not measured.

        Other algorithms, which may take a fraction of it, are left out.
        """
        memories = [past.memory for past in self.nearest(run) if past.likeness(run)[0]]
        return tuple(map(max, zip((0, 0), *memories, strict=True)))


def _kind(description: dict[str, Any]) -> str:
    """Return the protocol and its settings that change the seconds of a round: a protocol may have been edited."""
    keys = ("protocol", "model", "batch_size", "local_epochs", "precision")
    return json.dumps([description[key] for key in keys], sort_keys=True)


def measured(experiment: Experiment, scale: str) -> tuple[Measurements, list[str]]:
    """Return the measurements on the configuration's device, and a line for each damaged record."""
    device = gpus.resolve(experiment.config.get("device", "auto"))
    runs, left_out = [], []
    here = Path(experiment.paths.results, scale, "runs")
    own = run_folders.record_files([here], records.RECORD)
    for path in [*own, *run_folders.record_files([PUBLISHED], records.RECORD, records.RECORD_SO_FAR)]:
        published = PUBLISHED in path.parents
        try:
            record = run_folders.read_record(path, "seconds", "device", "host")
        except DataError as problem:
            left_out.append(f"{problem}; left out" + ("" if published else ". Delete it, and it is made again"))
            continue
        name = record.host.get("gpu" if device == "cuda" else "processor")
        # A run that diverged computed with numbers that may be slow.
        timed = record.diverged_at is None and record.rounds_done and record.seconds
        if timed and record.device == device and record.description["scale"] == scale:
            # Seeds that trained together took all their time together.
            pace = record.seconds / (record.together or 1) / record.rounds_done
            memory = record.peak_memory_bytes or 0, record.peak_device_memory_bytes or 0
            machine = (name or "a machine without a name") + " (published)" * published
            runs.append(Measured(record.description, pace, machine, memory, published))
    return Measurements(runs, device), left_out
