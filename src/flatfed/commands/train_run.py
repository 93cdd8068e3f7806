r"""``flatfed train``.

Writes metrics.csv, model.safetensors and, last, run.json. A second call resumes a stopped training from its checkpoint.
While another process trains the run, it waits. An equal finished run is not trained again: its files are linked back
from the hidden folder .finished; remove this folder to train again. Jobs of Snakemake train again after -R, -f or
--forceall. Needs torch, numpy, safetensors and pydantic, but neither Snakemake nor a configuration.

example:
  RUN=results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1
  flatfed describe $RUN > run.json
  flatfed train --run run.json --dataset resources/digits \
    --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz --out $RUN
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from flatfed import algorithms, gpus, models
from flatfed.commands import arguments
from flatfed.commands.arguments import argument, required
from flatfed.engine.job import interruption
from flatfed.errors import ConfigError
from flatfed.runs import lock, versions
from flatfed.runs.record import FILES
from flatfed.runs.run_config import RunConfig

#: Environment variable of the jobs of Snakemake: JSON list of the time of the call, the files that it forces, and
#: "train" if it forces all trainings.
FORCED = "FLATFED_FORCED"

ARGUMENTS = [
    arguments.RUN,
    arguments.DATASET,
    arguments.PARTITION,
    arguments.WEIGHTS,
    required("--out", arguments.folder, "run folder to write"),
    argument("--versions", arguments.json_or_file, "refuse other versions of the run's components, JSON"),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Train or resume; DataError if the settings are wrong, ConfigError for other versions."""
    config = arguments.run_config(options.run)
    algorithms.load(config.update.name)
    models.card(config.model.name)
    if options.versions:
        check_versions(config, options.versions)
    settings = {"threads": options.threads, "weights": options.weights, "device": gpus.demanded(options.device)}
    with contextlib.ExitStack() as held:
        with interruption.signals_noted():
            held.enter_context(lock.held(options.out, interruption.check))
        if settings["device"] == "cuda":
            held.enter_context(gpus.claimed())
        from flatfed.engine.job.train import train

        since = forced_since(options.out)
        train(config, options.dataset, options.partition, options.out, since=since, **settings)


def check_versions(config: RunConfig, requested: versions.Versions) -> None:
    """Raise ConfigError if the versions of a component are not the ``requested`` ones: its file changed."""
    present = versions.of_run(config)
    algorithm, model = algorithms.FILES.own_file(config.update.name), models.FILES.own_file(config.model.name)
    files = {"algorithm": algorithm, "model": model}
    for key in (key for key, version in present.items() if version != requested.get(key)):
        changed = f"{files.get(key) or f'the {key} of FlatFed'} changed after Snakemake started"
        raise ConfigError(f"{changed}; nothing was trained: call Snakemake again")


def forced_by(settings: Any, rule: str) -> set[str]:
    """Return the files that Snakemake's DAG ``settings`` force, and "train" if they force all jobs of ``rule``."""
    names = {*settings.forcerun, *(settings.targets if settings.forcetargets else ())}
    return names | ({"train"} if settings.forceall or rule in names else set())


def forced_since(out: Path) -> float:
    """Return the time of the call of Snakemake if it forces the training of the run ``out``, else minus infinity."""
    since, *forced = json.loads(os.environ.get(FORCED, "[0]"))
    files = {os.path.normpath(out / name) for name in FILES}
    return since if {"train", *files} & {os.path.normpath(name) for name in forced} else -math.inf
