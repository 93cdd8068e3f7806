"""Measured seconds per round and memory of finished and published runs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from flatfed import gpus
from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.plan import Experiment, Run
from flatfed.runs import record as records
from flatfed.runs.run_config import RunConfig

PUBLISHED = configuration.HOME / "results/published"


@dataclass(frozen=True)
class MeasuredRun:
    """Measurements of one run. ``memory``: peak bytes on host and device, 0 if not measured."""

    config: RunConfig
    seconds_per_round: float
    machine: str = ""
    memory: tuple[int, int] = (0, 0)
    published: bool = False

    def similarity(self, run: Run) -> tuple[bool, ...]:
        """Return whether it has the algorithm of ``run``, is not published, and has the split of ``run``."""
        same = self.config.update.name == run.config.update.name
        return same, not self.published, self.config.split == run.split


class Measurements:
    """Measurements of ``runs`` on a ``device``, "cpu" or "cuda"."""

    def __init__(self, runs: list[MeasuredRun], device: str):
        self.device, self.by_settings = device, defaultdict(list)
        for past in runs:
            self.by_settings[_speed_settings(past.config)].append(past)

    def nearest(self, run: Run) -> list[MeasuredRun]:
        """Return the most similar measurements of the protocol of ``run``."""
        of_protocol = self.by_settings[_speed_settings(run.config)]
        best = max((past.similarity(run) for past in of_protocol), default=None)
        return [past for past in of_protocol if past.similarity(run) == best]

    def seconds(self, run: Run) -> float | None:
        """Return the mean seconds per round of :meth:`nearest`, None without measurements."""
        near = self.nearest(run)
        return statistics.fmean(past.seconds_per_round for past in near) if near else None

    def memory(self, run: Run) -> tuple[int, int]:
        """Return the peak memory in bytes (host, device) of :meth:`nearest` with the algorithm of ``run``, else 0."""
        memories = [past.memory for past in self.nearest(run) if past.similarity(run)[0]]
        return tuple(map(max, zip((0, 0), *memories, strict=True)))


def _speed_settings(config: RunConfig) -> str:
    """Return the digest of the protocol and the settings that determine its speed."""
    return digest_json(config.model_dump(include={"protocol", "model", "batch_size", "local_epochs", "precision"}))


def measured(experiment: Experiment, scale: str) -> tuple[Measurements, list[str]]:
    """Return the measurements on the configured device, and a line for each damaged record."""
    device = gpus.resolve(experiment.request.device)
    runs, left_out = [], []
    finished = run_folders.record_files([Path(experiment.paths.results, scale, "runs")], records.RECORD)
    for path in [*finished, *run_folders.record_files([PUBLISHED], records.RECORD, records.RECORD_SO_FAR)]:
        published = PUBLISHED in path.parents
        try:
            record = run_folders.read_record(path, "seconds", "device", "host")
        except DataError as problem:
            left_out.append(f"{problem}; left out" + ("" if published else ". Delete it to train it again"))
            continue
        name = record.host.get("gpu" if device == "cuda" else "processor")
        # NaN may be slow.
        timed = record.diverged_at is None and record.rounds_done and record.seconds
        if timed and record.device == device and record.config.scale == scale:
            pace = record.seconds / record.rounds_done
            memory = record.peak_memory_bytes or 0, record.peak_device_memory_bytes or 0
            machine = (name or "unnamed machine") + " (published)" * published
            runs.append(MeasuredRun(record.config, pace, machine, memory, published))
    return Measurements(runs, device), left_out
