"""``flatfed rerun``: a run made again from its run.json, and its metrics held against those beside it."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from flatfed import algorithms, gpus, models
from flatfed.commands import kinds, run_folders, run_record
from flatfed.data import manifest as manifests
from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.runs import lock
from flatfed.runs.places import DEFAULT
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RunRecord

#: The column of metrics.csv that comes from a clock.
CLOCK = "seconds"

#: A line of metrics.csv: column -> text.
Line = dict[str, str]

DETAIL = """\
Trains with the record's partition, executor, device and number of threads, and compares metrics.csv with the
one beside the record, clocks aside. Names first what differs: code, versions, machine. Data set, partition
and pre-trained weights must be those of the record. --rounds N makes and compares the first N rounds of the
run (its schedules remain those of all rounds); a later call on the same folder goes on from there.
Exit status: 0 if all lines are the same digit for digit, else 1."""
EXAMPLE = "python -m flatfed rerun results/published/cifar10-cnn/runs/dir0.6-100/fedavg/seed1/run.json --out again"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    record = "folder or run.json of a finished run, or with --rounds folder or run.so-far.json of one that is not"
    sub.add_argument("record", type=kinds.record, metavar="RUN", help=record)
    sub.add_argument("--out", type=kinds.folder, required=True, metavar="DIR", help="folder for the run made again")
    sub.add_argument("--rounds", type=kinds.count, metavar="N", help="make and compare the first N rounds only")
    sub.add_argument("--dataset", type=kinds.folder, metavar="DIR", help="its data set (default: resources/<name>)")
    sub.add_argument("--weights", type=kinds.file, metavar="FILE", help="pre-trained weights (default: in resources)")
    sub.add_argument("--device", choices=("cpu", "cuda"), help="the device (default: the record's)")
    sub.add_argument("--threads", type=kinds.count, metavar="N", help="CPU threads (default: the record's)")


def run(options: argparse.Namespace) -> int:
    """Make the run of the command line again; return the exit status.

    :raises DataError: the record is damaged, the folder is not one for a new run, there are no such rounds to compare
        with, or data, partition or weights are not those of the run.
    :raises FlatFedError: the device is not there.
    """
    record = run_record.read(options.record)
    description = record.description
    dataset = options.dataset or Path(DEFAULT.dataset(description["dataset"]["name"]))
    named = description["model"].get("weights")
    weights = options.weights or (Path(DEFAULT.weights(named)) if named else None)
    algorithms.load(description["update"]["name"])
    models.card(description["model"]["name"])
    device = gpus.demanded(options.device or record.device)
    refuse_place(options.record, options.out)
    before = comparable(options.record, record, options.rounds)
    check(record, dataset, weights)
    for change in changes(record, device):
        print(change, file=sys.stderr)
    with lock.held(options.out):
        made = _train(options, record, dataset, weights, device)
    return compare(before, first_rounds(made, options.rounds), run_folders.lines_of(options.record), made)


def refuse_place(record: Path, out: Path) -> None:
    """Raise DataError where ``out`` is the folder of the ``record``, by whatever path, or of another finished run.

    What was published would be replaced by what is to be held against it, and be the same to the last digit.
    """
    if out.resolve() in (record.parent.resolve(), record.resolve().parent):
        raise DataError(f"--out {out}: there lies the run that is to be compared with; a folder of its own is wanted")
    if (out / RECORD).exists():
        raise DataError(f"--out {out}: a finished run lies there; give another folder, or remove it")


def first_rounds(metrics: Path, rounds: int | None) -> list[Line]:
    """Return the lines in the file ``metrics`` of the first ``rounds``, all where that is None."""
    with open(metrics, newline="", encoding="utf-8") as file:
        return [line for line in csv.DictReader(file) if rounds is None or int(line["round"]) <= rounds]


def comparable(file: Path, record: RunRecord, rounds: int | None) -> list[Line]:
    """Return the lines next to the ``record`` in ``file``, those of the first ``rounds`` where that is given.

    :raises DataError: they are not there, damaged, or of fewer rounds than are to be made.
    """
    run_folders.check_lines(file, record)
    metrics, done, total = run_folders.lines_of(file), record.rounds_done, record.description["rounds"]
    if rounds is not None and rounds > total:
        raise DataError(f"--rounds {rounds}: the run has {total}")
    if done < (rounds or total) and (rounds is not None or record.diverged_at is None):
        end = "" if record.diverged_at is None else f" (it diverged in round {record.diverged_at})"
        hint = f"; --rounds {done} makes and compares those" if done else ""
        raise DataError(f"{metrics}: ends with round {done} of {total}{end}: nothing to hold more against{hint}")
    kept = first_rounds(metrics, rounds)
    if not kept and record.diverged_at is None:
        first = first_rounds(metrics, None)[0]["round"]
        raise DataError(f"--rounds {rounds}: the first round that was evaluated is {first}; as many at least")
    return kept


def _train(options: argparse.Namespace, record: RunRecord, dataset: Path, weights: Path | None, device: str) -> Path:
    """Deal ``dataset`` as the ``record`` says, train its run in ``options.out`` and return the file of its metrics."""
    from flatfed.data import partition
    from flatfed.engine.job.train import train

    description, dealt = record.description, options.out / "partition.npz"
    partition.make({**description["partition"], "seed": description["seed"]}, dataset, dealt)
    if partition.load(dealt).digest != record.partition_digest:
        raise DataError(f"{dealt}: not the partition of {options.record}: other code deals otherwise")
    about = {**description, "executor": {**description["executor"], device: record.executor}}
    how = {"weights": weights, "stop_after": options.rounds, "threads": options.threads or record.threads}
    finished = train(about, dataset, dealt, options.out, device=device, **how)
    return options.out / (METRICS if finished else LINES_SO_FAR)


def check(record: RunRecord, dataset: Path, weights: Path | None) -> None:
    """Raise DataError where the data set or the weights are not there, or not those of the ``record``."""
    manifest = dataset / manifests.NAME
    if not manifest.exists():
        made = f"snakemake --cores 1 resources/{dataset.name}/{manifests.NAME}, {run_record.IN_ORDER}"
        raise DataError(f"{manifest} is not there; make it: {made}")
    if lines := run_folders.differing_digests(record, dataset_digest=manifests.read(manifest).digest):
        raise DataError(f"{dataset}: not the data set that the run was trained on: {lines[0]}")
    if weights is not None:
        from flatfed.models import pretrained

        if lines := run_folders.differing_digests(record, weights_digest=pretrained.digest(weights)):
            raise DataError(f"{weights}: not the weights that the run began with: {lines[0]}")


def changes(record: RunRecord, device: str) -> list[str]:
    """Return a line for everything that may decide the last digits and is not as it was when the run was made."""
    from flatfed.engine.job import machine

    now = machine.machine(machine.pick_device(device), 1)
    now_versions = versions.of_run(record.description)
    then = record.versions or dict.fromkeys(now_versions, "none")
    pairs = [(f"the version of the {name}", now_versions[name], was, "with") for name, was in then.items()]
    pairs += [(name, now["libraries"].get(name), was, "with") for name, was in record.libraries.items()]
    pairs += [(name, now["host"][name], record.host.get(name), "on") for name in ("processor", "gpu")]
    pairs.append(("device", device, record.device, "on"))
    return [f"{name} is {here}, the run was made {how} {then}" for name, here, then, how in pairs if here != then]


def compare(before: list[Line], after: list[Line], metrics: Path, made: Path) -> int:
    """Print how the lines ``before``, of the file ``metrics``, compare with those of ``made``; return the exit status.

    It is 0 where they are the same in every column that ``before`` has, clocks aside, else 1.
    """
    columns = [name for name in (before or [{}])[0] if name != CLOCK]
    new = [name for name in (after or [{}])[0] if name not in (*columns, CLOCK)]
    pairs = list(zip(before, after, strict=False))
    differing = [[name for name in columns if was[name] != line.get(name)] for was, line in pairs]
    first = next((place for place, names in enumerate(differing) if names), len(pairs))
    left_out = f"; not compared: {', '.join([CLOCK, *new])}"
    if first == len(before) == len(after):
        print(f"{made}: all {len(after)} lines are those of {metrics}, digit for digit")
        print(f"compared: {', '.join(columns)}{left_out}")
        return 0
    round_ = max(before, after, key=len)[first]["round"]
    print(f"{made}: differs from {metrics} from round {round_} on{_accuracies_at_the_end(before, after)}")
    if first == len(pairs):
        print(f"the {first} lines before are the same; {len(before)} were there, {len(after)} were made")
    else:
        print(f"in that round differ: {', '.join(differing[first])}; compared: {', '.join(columns)}{left_out}")
    return 1


def _accuracies_at_the_end(before: list[Line], after: list[Line]) -> str:
    """Return what the accuracy on unseen images is at the end, then and now; "" where it is not known."""
    was, now = ((lines or [{}])[-1] for lines in (before, after))
    for name in ("test_accuracy", "validation_accuracy"):
        if name in was and name in now:
            return f"; {name.replace('_', ' ')} {float(now[name]):.4f} at the end, it was {float(was[name]):.4f}"
    return ""
