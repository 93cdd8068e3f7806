"""``flatfed time``.

Trains a few rounds of a run, discards the model and writes timing.json: seconds per round of training and of
evaluation. Tables of wall-clock times use these only. Keep the machine idle meanwhile.

example:
  flatfed time --run run.json --dataset resources/digits --partition seed1.npz --out timing.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from flatfed import gpus
from flatfed.commands import arguments
from flatfed.commands.arguments import argument
from flatfed.errors import FlatFedError
from flatfed.runs import record as records
from flatfed.runs import timing as timings
from flatfed.runs.timing import Timing
from flatfed.tables.readings import read_history

#: Fields that timing.json copies from the record of the discarded run.
KEPT = ("device", "threads", "executor", "precision", "host", "versions", "libraries", "parameters")

ARGUMENTS = [
    arguments.RUN,
    arguments.DATASET,
    arguments.PARTITION,
    arguments.WEIGHTS,
    arguments.OUT,
    argument("--rounds", arguments.count, "measured rounds", default=5),
    argument("--warm-up", arguments.count, "rounds before them", default=1),
    *arguments.DEVICE,
]


def run(options: argparse.Namespace) -> None:
    """Write the seconds per round; FlatFedError if the run diverged.

    Evaluates all training and test (or validation) images after every round, as the official code does. Every round has
    the expected number of clients. All algorithms train all weights, also dead taps (:mod:`flatfed.engine.speed.live`).
    """
    config, total = arguments.run_config(options.run), options.warm_up + options.rounds
    settings = {"device": gpus.demanded(options.device), "threads": options.threads, "weights": options.weights}
    from flatfed.engine.job import train as engine

    load, cores = os.getloadavg()[0], os.cpu_count()
    busy = f"the machine was busy (load {load:.1f} on {cores} cores)" if load > cores * 0.75 else None
    if busy:
        print(f"{busy}: the seconds may be too long", file=sys.stderr)
    evaluated = {"every": 1, "sets": ["test" if config.validation is None else "validation", "train"]}
    evaluation, sampling = {**config.evaluation.as_json(), **evaluated}, config.sampling.as_json()
    if config.sampling.scheme == "bernoulli":
        sampling["scheme"] = "fixed"
    changes = {"rounds": total, "evaluation": evaluation, "sampling": sampling}
    short = config.changed("probe", **changes)
    with tempfile.TemporaryDirectory(prefix="flatfed-time-") as folder:
        engine.train(short, options.dataset, options.partition, folder, **settings, full_model=True)
        record = records.read_finished(folder)
        lines = read_history(Path(folder), record, ("seconds", "clients"))
    if record.diverged_at is not None:
        raise FlatFedError(f"the run diverged in round {record.diverged_at}; its seconds are not representative")
    seconds = [after - before for before, after in pairwise([0.0, *lines["seconds"].tolist()])][options.warm_up :]
    training, evaluation = statistics.fmean(seconds), record.seconds_evaluation / total
    timing = Timing(
        format=timings.FORMAT,
        config=config,
        rounds=options.rounds,
        warm_up=options.warm_up,
        clients=int(lines["clients"].iloc[-1]),
        evaluated=evaluated,
        seconds_per_round=round(training + evaluation, 6),
        training_seconds_per_round=round(training, 6),
        evaluation_seconds_per_round=round(evaluation, 6),
        training_seconds=[round(duration, 6) for duration in seconds],
        warning=busy,
        **{key: getattr(record, key) for key in KEPT},
    )
    timings.write(options.out, timing)
