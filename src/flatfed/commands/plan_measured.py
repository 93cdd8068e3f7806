"""Measured seconds per round and memory of finished and published runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from flatfed.commands import configuration, run_folders
from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.plan import Experiment, Run
from flatfed.runs.record import RunRecord
from flatfed.runs.run_config import RunConfig
from flatfed.tables.readings import chip

PUBLISHED = configuration.HOME / "results/published"


def measurement(record: RunRecord, published: bool) -> dict[str, Any]:
    """Return seconds per round, peak memory in bytes, and what :func:`nearest` compares."""
    return {
        "speed": _speed_settings(record.config),
        "algorithm": record.config.update.name,
        "split": record.config.split,
        "here": not published,
        "seconds": record.seconds / record.rounds_done,
        "memory": record.peak_memory_bytes,
        "GPU memory": record.peak_device_memory_bytes,
        "machine": (chip(record) or "unnamed machine") + (" (published)" if published else ""),
    }


def measured(experiment: Experiment, scale: str, device: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the measurements at a ``scale`` on a ``device``, and a line for each damaged record."""
    rows, left_out = [], []
    here = run_folders.find(Path(experiment.paths.results, scale, "runs"))
    for folder in [*here, *run_folders.find(PUBLISHED, so_far=True)]:
        published = PUBLISHED in folder.parents
        try:
            record = run_folders.read(folder, "seconds", "device", "host")
        except DataError as problem:
            left_out.append(f"{problem}; left out" + ("" if published else ". Delete it to train it again"))
            continue
        timed = record.diverged_at is None and record.rounds_done and record.seconds  # NaN may be slow
        if timed and (record.device, record.config.scale) == (device, scale):
            rows.append(measurement(record, published))
    return pd.DataFrame(rows), left_out


def nearest(run: Run, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of the protocol of ``run``: of its algorithm, here, or of its split, in this order."""
    if measured.empty:
        return measured
    of_protocol = measured[measured["speed"] == _speed_settings(run.config)]
    same = (of_protocol["algorithm"] == run.config.update.name, of_protocol["here"], of_protocol["split"] == run.split)
    similarity = 4 * same[0] + 2 * same[1] + same[2]
    return of_protocol[similarity == similarity.max()]


def _speed_settings(config: RunConfig) -> str:
    """Return the digest of the protocol and the settings that determine its speed."""
    keys = {"protocol", "model", "batch_size", "local_epochs", "precision"}
    keys |= {"local_steps"} if config.local_epochs is None else set()  # a centralised run has both
    return digest_json(config.model_dump(include=keys))
