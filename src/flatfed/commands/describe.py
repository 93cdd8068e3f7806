"""``flatfed describe``.

Prints the settings of runs, one line of JSON per folder, the input of `train`. The folder need not exist. --script
prints a shell script that makes data, partitions and runs in a copy of FlatFed without Snakemake; `import` takes the
runs back.

example:
  python -m flatfed describe --script results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 > runs.sh
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Any

from flatfed import algorithms, models
from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument, flag
from flatfed.errors import DataError, unknown
from flatfed.plan import SCALES, Experiment, Run
from flatfed.runs.paths import RunIds

FOLDER = "results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK"

ARGUMENTS = [
    argument("folders", str, FOLDER, nargs="+", metavar="RUN_FOLDER"),
    flag("--script", "print a shell script that trains the runs"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print the settings or the script."""
    experiment = configuration.load(options.config)
    runs = [run_of(experiment, folder) for folder in options.folders]
    settings = [json.dumps(run.config.as_json(), sort_keys=True) for run in runs]
    print("\n".join(script(experiment, runs) if options.script else settings))


def run_of(experiment: Experiment, folder: str) -> Run:
    """Return the run of ``folder``: ``results/<scale>/runs/<protocol>/<split>/<algorithm>/seed<k>``.

    :raises DataError: the path has another form.
    :raises ConfigError: the configuration has no such protocol, split or algorithm.
    """
    scale = next(iter(Path(folder).parts[-6:-5]), "")
    ids = RunIds.of_folder(scale, folder)
    if scale not in SCALES:
        raise DataError(unknown("scale", scale, SCALES, folder))
    return experiment.run(**vars(ids))


def script(experiment: Experiment, runs: list[Run]) -> list[str]:
    """Return a shell script, by line, that makes missing data, partitions and runs."""
    lines = [
        "#!/bin/sh",
        "# Run in a copy of FlatFed where `python` has torch, numpy, safetensors and pydantic. A second call resumes.",
        "# Copy resources/, too: without it, images need a network or, digits, scikit-learn.",
        "set -eu",
        "export PYTHONPATH=src",
    ]
    for files in (algorithms.FILES, models.FILES):
        if folders := experiment.request.folders:
            lines.append(f"export {files.variable}={shlex.quote(os.pathsep.join(folders))} # copy these, too")
    steps: dict[str, str] = {}
    for run in runs:
        folder = run.paths.dataset(run.dataset)
        dataset = quoted(experiment.catalog.dataset_spec(run.dataset).as_written())
        spec = experiment.partition_spec(run.scale, run.protocol, run.split, run.seed)
        steps[run.manifest] = f"fetch --spec {dataset} --out {folder}"
        steps[run.partition] = f"partition --spec {quoted(spec.as_written())} --dataset {folder} --out {run.partition}"
        if run.weights:
            steps[run.weights] = f"weights --name {run.config.model.weights} --out {run.weights}"
        weights = f"--weights {run.weights} " if run.weights else ""
        paths = f"--dataset {folder} --partition {run.partition} {weights}--out {run.path}"
        steps[run.record] = f"train --run {quoted(run.config.as_json())} {paths}"
    return lines + [f"[ -e {file} ] || python -m flatfed {command}" for file, command in steps.items()]


def quoted(value: Any) -> str:
    return shlex.quote(json.dumps(value, sort_keys=True))
