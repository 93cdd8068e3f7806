"""``flatfed describe``: what a training takes, for a machine without Snakemake."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatfed.commands import configuration
from flatfed.commands.run_folder import run_of
from flatfed.experiment import Experiment, Run


def describe(folders: Iterable[str], config: configuration.Parts, *, script: bool) -> None:
    """Print the description of each run folder as one line of JSON or, with ``script``, commands that make the runs.

    :raises ConfigError: the configuration is wrong, or knows no such run.
    :raises DataError: a path is not that of a run folder.
    """
    experiment = configuration.load(config)
    runs = [run_of(experiment, folder) for folder in folders]
    lines = commands(experiment, runs) if script else [json.dumps(run.description, sort_keys=True) for run in runs]
    print("\n".join(lines))


def commands(experiment: Experiment, runs: list[Run]) -> list[str]:
    """Return the lines of a shell script that makes ``runs``, their data and partitions; what exists is left alone."""
    lines = [
        "#!/bin/sh",
        "# Run in a copy of FlatFed where `python` has torch, numpy and safetensors. Called again, it goes on.",
        "set -eu",
        "export PYTHONPATH=src",
    ]
    for run in {run.dataset: run for run in sorted(runs, key=lambda run: run.dataset)}.values():
        spec, folder = quoted(experiment.dataset_spec(run.dataset)), run.places.dataset(run.dataset)
        lines.append(step(run.manifest, f"fetch --spec {spec} --out {folder}"))
    for run in {run.partition: run for run in runs}.values():
        spec = quoted(experiment.partition_spec(run.scale, run.protocol, run.split, run.seed))
        deal = f"partition --spec {spec} --dataset {run.places.dataset(run.dataset)} --out {run.partition}"
        lines.append(step(run.partition, deal))
    for path in sorted({run.weights for run in runs if run.weights}):
        lines.append(step(path, f"weights --name {Path(path).stem} --out {path}"))
    for run in runs:
        weights = f"--weights {run.weights} " if run.weights else ""
        place = f"--dataset {run.places.dataset(run.dataset)} --partition {run.partition} {weights}--out {run.path}"
        lines.append(step(run.record, f"train --run {quoted(run.description)} {place}"))
    return lines


def quoted(value: Any) -> str:
    """Return ``value`` as JSON in shell quotes."""
    return shlex.quote(json.dumps(value, sort_keys=True))


def step(made: str, command: str) -> str:
    """Return the line that makes the file ``made`` unless it is there."""
    return f"[ -e {made} ] || python -m flatfed {command}"
