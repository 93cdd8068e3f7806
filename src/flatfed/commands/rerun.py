"""``flatfed rerun``.

Trains the run again with the settings and threads of its run.json, and compares metrics.csv, except times. Lists
differences of code, libraries and machine. A removed executor is replaced by a present one. Requires the same data,
partition and pre-trained weights. --rounds N trains and compares the first N rounds; a later call resumes. Exit status:
0 if all digits agree, else 1.

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
from flatfed.commands import arguments, run_folders
from flatfed.commands.arguments import argument, required
from flatfed.data import manifest as manifests
from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.runs import lock
from flatfed.runs.paths import DEFAULT
from flatfed.runs.record import LINES_SO_FAR, METRICS, ORDER, RECORD, RunRecord
from flatfed.runs.run_config import differences

CLOCK = "seconds"

ARGUMENTS = [
    argument("run", arguments.folder, "a finished run, or with --rounds an unfinished one", metavar="RUN_FOLDER"),
    required("--out", arguments.folder, "folder for the rerun"),
    argument("--rounds", arguments.count, "rerun only the first N rounds"),
    argument("--dataset", arguments.folder, "its dataset (default: resources/<name>)"),
    argument("--weights", arguments.file, "pre-trained weights (default: in resources)"),
    argument("--device", ("cpu", "cuda"), "the device (default: the run's)"),
]


def run(options: argparse.Namespace) -> int:
    """Rerun and compare; return the exit status.

    :raises DataError: ``--out`` contains a run, or the record is damaged or has other data or too few rounds.
    """
    record = run_folders.read_with_metrics(options.run, "executor", "device", "threads", "libraries", "host")
    metrics, partition = options.run / record.metrics, options.out / "partition.npz"
    config = record.config
    dataset = options.dataset or Path(DEFAULT.dataset(config.dataset.name))
    weights = options.weights or (Path(DEFAULT.weights(config.model.weights)) if config.model.weights else None)
    device = gpus.demanded(options.device or record.device)
    results = (options.out / name for name in (RECORD, METRICS))
    if options.out.resolve() == options.run.resolve() or any(file.exists() for file in results):
        raise DataError(f"--out {options.out}: contains a run; choose another folder, or remove it")
    before = comparable(metrics, record, options.rounds)
    check(record, dataset, weights)
    for change in changes(record, device):
        print(change, file=sys.stderr)
    executor = present_executor(record, device)
    from flatfed.data import partition as partitions
    from flatfed.engine.job.train import train

    with lock.held(options.out):
        partitions.make({**config.partition.as_written(), "seed": config.seed}, dataset, partition)
        if partitions.load(partition).digest != record.partition_digest:
            raise DataError(f"{partition}: not the partition of {options.run}: its code differs")
        config = config.changed(executor={**config.executor.as_json(), device: executor})
        settings = {"weights": weights, "stop_after": options.rounds, "threads": record.threads}
        finished = train(config, dataset, partition, options.out, device=device, **settings)
    new_metrics = options.out / (METRICS if finished else LINES_SO_FAR)
    return compare(before, first_rounds(new_metrics, options.rounds), metrics, new_metrics)


def present_executor(record: RunRecord, device: str) -> str:
    """Return the record's executor; if it was removed, that of its settings or the default one, with a message."""
    from flatfed.engine.executors import EXECUTORS, REPLACED

    if record.executor in EXECUTORS:
        return record.executor
    from flatfed.config.protocol import DEFAULTS

    choices = getattr(record.config.executor, device), DEFAULTS["executor"][device]
    executor = next(name for name in (REPLACED.get(choice, choice) for choice in choices) if name in EXECUTORS)
    commit = record.commit or "unknown"
    repeat = f" (`git checkout {commit}` repeats its digits)" if record.commit and " " not in commit else ""
    executors = f"this version has no executor {record.executor!r}" if record.executor else "the record has no executor"
    removed = f"{executors}; the run was made at commit {commit}{repeat}"
    print(f"{removed}; the rerun uses executor {executor!r}, so its digits will differ", file=sys.stderr)
    return executor


def first_rounds(metrics: Path, rounds: int | None) -> list[dict[str, str]]:
    """Return the lines of the first ``rounds`` (None: all) in ``metrics``, without times."""
    with open(metrics, newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if rounds is None or int(line["round"]) <= rounds]
    return [{column: text for column, text in line.items() if column != CLOCK} for line in lines]


def comparable(metrics: Path, record: RunRecord, rounds: int | None) -> list[dict[str, str]]:
    """Return :func:`first_rounds`; DataError if there are fewer rounds, or none was evaluated."""
    done, total, diverged_at = record.rounds_done, record.config.rounds, record.diverged_at
    if (rounds or (total if diverged_at is None else done)) > done:
        end = "" if diverged_at is None else f" (it diverged in round {diverged_at})"
        hint = f"; --rounds {done} compares these" if done else ""
        raise DataError(f"{metrics}: ends with round {done} of {total}{end}: no more rounds to compare with{hint}")
    lines = first_rounds(metrics, rounds)
    if not lines and diverged_at is None:
        raise DataError(f"{metrics}: none of the first {rounds} rounds was evaluated; use more --rounds")
    return lines


def check(record: RunRecord, dataset: Path, weights: Path | None) -> None:
    """Raise DataError if dataset or weights are missing or differ from the ``record``."""
    manifest = dataset / manifests.NAME
    if not manifest.exists():
        command = f"snakemake --cores 1 resources/{dataset.name}/{manifests.NAME}"
        raise DataError(f"{manifest} is missing. {ORDER} Make it: {command}")
    if manifests.read(manifest).digest != record.dataset_digest:
        problem = "not the dataset that the run was trained on (other digest); fetch it again"
        raise DataError(f"{dataset}: {problem}. {ORDER}")
    if weights is not None:
        from flatfed.models import pretrained

        if pretrained.digest(weights) != record.weights_digest:
            raise DataError(f"{weights}: not the pre-trained weights of the run (other digest)")


def changes(record: RunRecord, device: str) -> list[str]:
    """Return lines: differences of code, libraries, device or machine from the ``record``."""
    from flatfed.engine.job import machine

    now = machine.machine(machine.pick_device(device), 1)
    here = {"libraries": now["libraries"], "device": device, "versions": versions.of_run(record.config)}
    then = {key: getattr(record, key) for key in here}
    for pair, host in ((here, now["host"]), (then, record.host)):
        pair |= {name: host.get(name) for name in ("processor", "gpu")}
    return [f"{key} is {new}, the run was made with {was}" for key, was, new in differences(then, here)]


def compare(before: list[dict[str, str]], after: list[dict[str, str]], metrics: Path, new_metrics: Path) -> int:
    """Print the comparison; return 0 if the lines agree in the columns of ``before``, else 1."""
    columns, new_columns = (list(lines[0]) if lines else [] for lines in (before, after))
    ignored = [CLOCK, *(column for column in new_columns if column not in columns)]
    compared = f"compared: {', '.join(columns)}; not compared: {', '.join(ignored)}"
    for was, line in zip_longest(before, after, fillvalue={}):
        if (different := [name for name in columns if was.get(name) != line.get(name)]) or not (was and line):
            now, then = ((lines or [{}])[-1].get("test_accuracy", "unknown") for lines in (after, before))
            print(f"{new_metrics}: differs from {metrics} from round {(was or line)['round']} on; ", end="")
            print(f"final accuracy {now}, before {then}")
            print(f"differences in this round: {', '.join(different) or 'all'}; {compared}")
            return 1
    print(f"{new_metrics}: all {len(after)} lines are those of {metrics}, digit for digit\n{compared}")
    return 0
