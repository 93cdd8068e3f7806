"""``flatfed describe``: what a training takes, for a machine without Snakemake.

One line of JSON for each run folder. The folder need not exist: its path says which run is meant.
With --script, prints a shell script instead, which makes data, partitions and runs in a copy of FlatFed
on a machine that has torch but no Snakemake; `import` takes the runs back.

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
from flatfed.experiment import SCALES, Experiment, Run, run_specs
from flatfed.runs.paths import RunIds

FOLDER = "results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK"

ARGUMENTS = [
    argument("folders", str, FOLDER, nargs="+", metavar="RUN_FOLDER"),
    flag("--script", "print a shell script that makes the runs"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Print the description of each run folder as one line of JSON or, with --script, commands that make the runs.

    :raises ConfigError: the configuration is wrong, or knows no such run.
    :raises DataError: a path is not that of a run folder.
    """
    experiment = configuration.load(options.config)
    runs = [run_of(experiment, folder) for folder in options.folders]
    descriptions = [json.dumps(run.description, sort_keys=True) for run in runs]
    print("\n".join(script(experiment, runs) if options.script else descriptions))


def run_of(experiment: Experiment, folder: str) -> Run:
    """Return the run that the path of a folder means: ``results/<scale>/runs/<protocol>/<split>/<algorithm>/seed<k>``.

    :raises DataError: the path is of another form.
    :raises ConfigError: the configuration has no such protocol, split or algorithm.
    """
    scale = next(iter(Path(folder).parts[-6:-5]), "")
    ids = RunIds.of_folder(scale, folder)
    if scale not in SCALES:
        raise DataError(unknown("scale", scale, SCALES, folder))
    return run_specs.run(experiment, **vars(ids))


def script(experiment: Experiment, runs: list[Run]) -> list[str]:
    """Return the lines of a shell script that makes ``runs``, their data and partitions; what exists is left alone."""
    lines = [
        "#!/bin/sh",
        "# Run in a copy of FlatFed where `python` has torch, numpy and safetensors. Called again, it goes on.",
        "set -eu",
        "export PYTHONPATH=src",
    ]
    own = {files.variable: experiment.config.get(files.setting) for files in (algorithms.FILES, models.FILES)}
    lines += [f"export {name}={shlex.quote(os.pathsep.join(own[name]))} # copy these, too" for name in own if own[name]]
    steps: dict[str, str] = {}
    for run in runs:
        folder = run.paths.dataset(run.dataset)
        dataset = quoted(run_specs.dataset_spec(experiment.catalog, run.dataset))
        partition = quoted(run_specs.partition_spec(experiment, run.scale, run.protocol, run.split, run.seed))
        steps[run.manifest] = f"fetch --spec {dataset} --out {folder}"
        steps[run.partition] = f"partition --spec {partition} --dataset {folder} --out {run.partition}"
        if run.weights:
            steps[run.weights] = f"weights --name {run.description['model']['weights']} --out {run.weights}"
        weights = f"--weights {run.weights} " if run.weights else ""
        place = f"--dataset {folder} --partition {run.partition} {weights}--out {run.path}"
        steps[run.record] = f"train --run {quoted(run.description)} {place}"
    return lines + [f"[ -e {made} ] || python -m flatfed {command}" for made, command in steps.items()]


def quoted(value: Any) -> str:
    """Return ``value`` as JSON in shell quotes."""
    return shlex.quote(json.dumps(value, sort_keys=True))
