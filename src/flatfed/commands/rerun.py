"""``flatfed rerun``.

Trains the run again with the settings, device and threads of its run.json, and compares metrics.csv, except times.
Lists differences of versions, executor, libraries and machine. Requires the same data and partition. --rounds N trains
and compares the first N rounds; a later call resumes. Exit status: 0 if all digits agree, else 1.

example:
  flatfed rerun results/published/cifar10-cnn/runs/dir0.6-100/fedavg/seed1 --out again
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from flatfed import gpus
from flatfed.commands import arguments
from flatfed.commands.arguments import argument, required
from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.runs import lock, store
from flatfed.runs.paths import DEFAULT
from flatfed.runs.record import ORDER, RECORD
from flatfed.runs.run_config import differences

CLOCK = "seconds"

#: Fields of a record whose differences may explain others.
ORIGIN = {"versions", "executor", "precision", "tf32", "device", "libraries", "host", "weights_digest"}

ARGUMENTS = [
    argument("run", arguments.folder, "a run, finished or not", metavar="RUN_FOLDER"),
    required("--out", arguments.folder, "folder for the rerun"),
    argument("--rounds", arguments.count, "rerun only the first N rounds"),
    argument("--dataset", arguments.folder, "its dataset (default: resources/<name>)"),
]


def run(options: argparse.Namespace) -> int:
    """Rerun and compare; return the exit status.

    :raises DataError: ``--out`` contains a run, or the record is damaged or has other data or too few rounds.
    """
    record = store.read(options.run)
    record.require(("device", "threads"), options.run)
    config, metrics, partition = record.config, options.run / record.metrics, options.out / "partition.npz"
    dataset = options.dataset or Path(DEFAULT.dataset(config.dataset.name))
    device = gpus.demanded(record.device)
    if options.out.resolve() == options.run.resolve() or (options.out / RECORD).exists():
        raise DataError(f"--out {options.out}: contains a run; choose another folder, or remove it")
    rounds = min(options.rounds or config.rounds, record.rounds_done)
    before = lines(metrics, rounds)
    if before.empty and record.diverged_at is None:
        first = next(iter(lines(metrics, config.rounds).index), "not evaluated yet")
        raise DataError(f"{metrics}: has nothing to compare in rounds 1 to {rounds}; its first round is {first}")
    manifest = dataset / manifests.NAME
    if not manifest.exists() or manifests.read(manifest).digest != record.dataset_digest:
        raise DataError(f"{dataset}: is not the dataset of the run. {ORDER} Make it: snakemake --cores 1 {manifest}")
    from flatfed.data import partition as partitions
    from flatfed.engine.executors import EXECUTORS
    from flatfed.engine.job.train import train

    if record.executor in EXECUTORS:
        config = config.changed(executor={**config.executor.as_json(), device: record.executor})
    with lock.held(options.out):
        partitions.make({**config.partition.as_written(), "seed": config.seed}, dataset, partition)
        if partitions.load(partition).digest != record.partition_digest:
            raise DataError(f"{partition}: not the partition of {options.run}: its code differs")
        stop_after = options.rounds if record.ended else rounds
        session = {"device": device, "threads": record.threads, "stop_after": stop_after}
        train(config, dataset, partition, options.out, **session)
    again = store.read(options.out)
    for key, was, new in differences(record.model_dump(include=ORIGIN), again.model_dump(include=ORIGIN)):
        made_with = "the record of the run names none" if was is None else f"the run was made with {was}"
        print(f"{key} is {new}; {made_with}", file=sys.stderr)
    return compare(before, lines(options.out / again.metrics, rounds), metrics, options.out / again.metrics)


def lines(metrics: Path, rounds: int) -> pd.DataFrame:
    """Return the texts of the first ``rounds`` in ``metrics``, by round, without times."""
    table = pd.read_csv(metrics, dtype=str, keep_default_na=False)
    return table[table["round"].astype(int) <= rounds].set_index("round").drop(columns=CLOCK, errors="ignore")


def compare(before: pd.DataFrame, after: pd.DataFrame, metrics: Path, new_metrics: Path) -> int:
    """Print the comparison; return 0 if the lines agree in the columns of ``before``, else 1."""
    rounds = before.index.union(after.index, sort=False)
    was, now = (table.reindex(index=rounds, columns=before.columns) for table in (before, after))
    different = was.ne(now)
    ignored = [CLOCK, *after.columns.difference(before.columns)]
    print(f"compared: {', '.join(before)}; not compared: {', '.join(ignored)}")
    if not different.any(axis=None):
        print(f"{new_metrics}: all {len(after)} lines are those of {metrics}, digit for digit")
        return 0
    first = different.any(axis=1).idxmax()
    where = f"from round {first} on" + (", the first compared round" if first == rounds[0] else "")
    columns = ", ".join(before.columns[different.loc[first]])
    print(f"{new_metrics}: differs from {metrics} {where}, there in {columns}")
    old, new = (table.apply(pd.to_numeric, errors="coerce") for table in (was, now))
    largest = ((new - old).abs() / old.abs()).max()
    sizes = ", ".join(f"{column} {value:.1g}" for column, value in largest[largest > 0].items())
    print(f"largest relative differences: {sizes or 'none in numbers'}")
    print("On another kind of CPU or GPU, or with another torch, digits differ, and differences grow with the rounds.")
    print("Usual sizes: docs/performance.md, 'Precision, and what repeats bit for bit'.")
    return 1
