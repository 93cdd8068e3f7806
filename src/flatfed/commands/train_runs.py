r"""``flatfed train``.

Writes metrics.csv, model.safetensors and, last, run.json. A second call resumes a stopped training from its checkpoint.
While another process trains the run, it waits; then it accepts the finished run, or resumes.
Needs torch, numpy and safetensors, but neither Snakemake nor a configuration.

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
from flatfed.commands import arguments, kinds
from flatfed.commands.arguments import required
from flatfed.engine.job import interruption
from flatfed.errors import DataError
from flatfed.runs import description, lock

ARGUMENTS = [
    required("--run", kinds.json_or_file, f"{arguments.DESCRIPTION}; several seeds train together", nargs="+"),
    arguments.DATASET,
    required("--partition", kinds.file, "partition file from `partition`, one per run", nargs="+", metavar="NPZ"),
    arguments.WEIGHTS,
    required("--out", kinds.folder, "run folder to write, one per run", nargs="+"),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Train or resume; DataError if a description is wrong, or partitions or folders are not one per run."""
    runs, partitions, outs = options.run, options.partition, options.out
    if not len(runs) == len(partitions) == len(outs):
        counts = f"{len(runs)} of --run, {len(partitions)} of --partition and {len(outs)} of --out"
        raise DataError(f"every run needs its own partition and folder, but there are {counts}")
    for index, content in enumerate(runs):
        description.check_from_user(content, f"--run{f'[{index}]' if len(runs) > 1 else ''}")
    algorithms.load(runs[0]["update"]["name"])
    models.card(runs[0]["model"]["name"])
    common = {"threads": options.threads, "weights": options.weights, "device": gpus.demanded(options.device)}
    common["since"] = float(os.environ.get(lock.CALLED, time.time()))
    with contextlib.ExitStack() as held:
        with interruption.signals_noted():
            for out in outs:
                held.enter_context(lock.held(out, interruption.check))
        if common["device"] == "cuda":
            held.enter_context(gpus.claimed())
        from flatfed.engine.job.together import train_together
        from flatfed.engine.job.train import train

        if len(runs) == 1:
            train(runs[0], options.dataset, partitions[0], outs[0], **common)
        else:
            train_together(runs, options.dataset, partitions, outs, **common)
