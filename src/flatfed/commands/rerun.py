"""``flatfed rerun``: a run made again from its run.json, and its metrics held against those beside it.

Trains with the record's partition, executor, device and number of threads, and compares metrics.csv with the
one beside the record, clocks aside. Names first what differs: code, versions, machine. Data set, partition
and pre-trained weights must be those of the record. --rounds N makes and compares the first N rounds of the
run (its schedules remain those of all rounds); a later call on the same folder goes on from there.
Exit status: 0 if all lines are the same digit for digit, else 1.

example:
  python -m flatfed rerun results/published/cifar10-cnn/runs/dir0.6-100/fedavg/seed1 --out again
"""

from __future__ import annotations

import argparse
import csv
import sys
from itertools import zip_longest
from pathlib import Path

from flatfed import gpus
from flatfed.commands import kinds, run_folders
from flatfed.commands.arguments import argument, required
from flatfed.data import manifest as manifests
from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.runs import identity, lock
from flatfed.runs.paths import DEFAULT
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RunRecord

#: The column of metrics.csv that comes from a clock.
CLOCK = "seconds"

#: Fields that the command needs and that a record may lack.
NEEDED = ("executor", "device", "threads", "libraries", "host")

ARGUMENTS = [
    argument("run", kinds.folder, "a finished run, or with --rounds an unfinished one", metavar="RUN_FOLDER"),
    required("--out", kinds.folder, "folder for the run made again"),
    argument("--rounds", kinds.count, "make and compare the first N rounds only"),
    argument("--dataset", kinds.folder, "its data set (default: resources/<name>)"),
    argument("--weights", kinds.file, "pre-trained weights (default: in resources)"),
    argument("--device", ("cpu", "cuda"), "the device (default: the record's)"),
]


def run(options: argparse.Namespace) -> int:
    """Make the run of the command line again; return the exit status.

    :raises DataError: the record is damaged, the folder is not one for a new run, there are no such rounds to compare
        with, or data, partition or weights are not those of the run.
    :raises FlatFedError: the device is not there.
    """
    file = run_folders.record_file(options.run)
    record = run_folders.read(file, *NEEDED)
    about = record.description
    dataset = options.dataset or Path(DEFAULT.dataset(about["dataset"]["name"]))
    weights = about["model"].get("weights")
    weights = options.weights or (Path(DEFAULT.weights(weights)) if weights else None)
    device = gpus.demanded(options.device or record.device)
    same = options.out.resolve() in (options.run.resolve(), file.resolve().parent)
    if same or (options.out / RECORD).exists():
        raise DataError(f"--out {options.out}: a run lies there; give another folder, or remove it")
    metrics, partition = run_folders.lines_of(file), options.out / "partition.npz"
    before = comparable(metrics, record, options.rounds)
    check(record, dataset, weights)
    for change in changes(record, device):
        print(change, file=sys.stderr)
    from flatfed.data import partition as partitions
    from flatfed.engine.job.train import train

    with lock.held(options.out):
        partitions.make({**about["partition"], "seed": about["seed"]}, dataset, partition)
        if partitions.load(partition).digest != record.partition_digest:
            raise DataError(f"{partition}: not the partition of {options.run}: other code deals otherwise")
        about = {**about, "executor": {**about["executor"], device: record.executor}}
        how = {"weights": weights, "stop_after": options.rounds, "threads": record.threads}
        finished = train(about, dataset, partition, options.out, device=device, **how)
    made = options.out / (METRICS if finished else LINES_SO_FAR)
    return compare(before, first_rounds(made, options.rounds), metrics, made)


def first_rounds(metrics: Path, rounds: int | None) -> list[dict[str, str]]:
    """Return the lines in the file ``metrics`` of the first ``rounds``, all where that is None; without clocks."""
    with open(metrics, newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if rounds is None or int(line["round"]) <= rounds]
    return [{column: text for column, text in line.items() if column != CLOCK} for line in lines]


def comparable(metrics: Path, record: RunRecord, rounds: int | None) -> list[dict[str, str]]:
    """Return the lines in ``metrics``, those of the first ``rounds`` where that is given.

    :raises DataError: they are of fewer rounds than are to be made, or none of these was evaluated.
    """
    done, total, diverged_at = record.rounds_done, record.description["rounds"], record.diverged_at
    if (rounds or (total if diverged_at is None else done)) > done:
        end = "" if diverged_at is None else f" (it diverged in round {diverged_at})"
        hint = f"; --rounds {done} makes and compares those" if done else ""
        raise DataError(f"{metrics}: ends with round {done} of {total}{end}: nothing to hold more against{hint}")
    lines = first_rounds(metrics, rounds)
    if not lines and diverged_at is None:
        raise DataError(f"{metrics}: none of the first {rounds} rounds was evaluated; give more --rounds")
    return lines


def check(record: RunRecord, dataset: Path, weights: Path | None) -> None:
    """Raise DataError where the data set or the weights are not there, or not those of the ``record``."""
    manifest = dataset / manifests.NAME
    if not manifest.exists():
        made = f"snakemake --cores 1 resources/{dataset.name}/{manifests.NAME}, {run_folders.IN_ORDER}"
        raise DataError(f"{manifest} is not there; make it: {made}")
    if manifests.read(manifest).digest != record.dataset_digest:
        again = f"make it again {run_folders.IN_ORDER}"
        raise DataError(f"{dataset}: not the data set that the run was trained on, by its digest; {again}")
    if weights is not None:
        from flatfed.models import pretrained

        if pretrained.digest(weights) != record.weights_digest:
            raise DataError(f"{weights}: not the weights that the run began with, by their digest")


def changes(record: RunRecord, device: str) -> list[str]:
    """Return a line for everything that may decide the last digits and is not as it was when the run was made."""
    from flatfed.engine.job import machine

    now = machine.machine(machine.pick_device(device), 1)
    here = {"versions": versions.of_run(record.description), "libraries": now["libraries"], "device": device}
    then = {key: getattr(record, key) for key in here}
    for pair, host in ((here, now["host"]), (then, record.host)):
        pair |= {name: host.get(name) for name in ("processor", "gpu")}
    return [f"{key} is {new}, the run was made with {was}" for key, was, new in identity.differences(then, here)]


def compare(before: list[dict[str, str]], after: list[dict[str, str]], metrics: Path, made: Path) -> int:
    """Print how the lines ``before``, of the file ``metrics``, compare with those of ``made``; return the exit status.

    It is 0 where they are the same in every column that ``before`` has, else 1.
    """
    columns, new = (list(lines[0]) if lines else [] for lines in (before, after))
    others = [CLOCK, *(column for column in new if column not in columns)]
    compared = f"compared: {', '.join(columns)}; not compared: {', '.join(others)}"
    for was, line in zip_longest(before, after, fillvalue={}):
        if (different := [name for name in columns if was.get(name) != line.get(name)]) or not (was and line):
            now, then = ((lines or [{}])[-1].get("test_accuracy", "not known") for lines in (after, before))
            place = f"{made}: differs from {metrics} from round {(was or line)['round']} on"
            print(f"{place}; accuracy {now} at the end, it was {then}")
            print(f"in that round differ: {', '.join(different) or 'all'}; {compared}")
            return 1
    print(f"{made}: all {len(after)} lines are those of {metrics}, digit for digit\n{compared}")
    return 0
