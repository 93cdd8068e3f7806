r"""``flatfed train``.

Writes metrics.csv, model.safetensors and, last, run.json. A second call resumes a stopped training from its checkpoint.
While another process trains the run, it waits; then it accepts the finished run, or resumes.
Needs torch, numpy, safetensors and pydantic, but neither Snakemake nor a configuration.

example:
  RUN=results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1
  python -m flatfed describe $RUN > run.json
  python -m flatfed train --run run.json --dataset resources/digits \
    --partition results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz --out $RUN
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time

from flatfed import algorithms, gpus, models
from flatfed.commands import arguments
from flatfed.commands.arguments import required
from flatfed.engine.job import interruption
from flatfed.runs import lock

ARGUMENTS = [
    arguments.RUN,
    arguments.DATASET,
    arguments.PARTITION,
    arguments.WEIGHTS,
    required("--out", arguments.folder, "run folder to write"),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Train or resume; DataError if the settings are wrong."""
    config = arguments.run_config(options.run)
    algorithms.load(config.update.name)
    models.card(config.model.name)
    settings = {"threads": options.threads, "weights": options.weights, "device": gpus.demanded(options.device)}
    since = float(os.environ.get(lock.CALLED, time.time()))
    with contextlib.ExitStack() as held:
        with interruption.signals_noted():
            held.enter_context(lock.held(options.out, interruption.check))
        if settings["device"] == "cuda":
            held.enter_context(gpus.claimed())
        from flatfed.engine.job.train import train

        train(config, options.dataset, options.partition, options.out, since=since, **settings)
