"""``flatfed rerun``: a run made again from its run.json, and its metrics held against those beside it."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from flatfed import algorithms, gpus, models
from flatfed.commands import kinds, run_record
from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.runs import lock, provenance
from flatfed.runs.places import DEFAULT
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RunRecord

#: Exit status where the metrics are not the same.
DIFFERS = 1

#: The column of metrics.csv that comes from a clock.
CLOCK = "seconds"

#: A line of metrics.csv: column -> text.
Line = dict[str, str]

DETAIL = """\
Deals the data set as the record says, trains with the same executor, device and number of threads, and
compares metrics.csv with the one beside the record, clocks aside. Says first what is not as it was: code,
versions, machine. Data set, partition and pre-trained weights must be those of the record.
--rounds N makes the first N rounds only, of the run as it is (schedules are those of all its rounds), and
compares their lines; a later call on the same folder goes on from there, with more rounds or with all.
Exit status: 0 where all lines are the same digit for digit, 1 where they are not."""
EXAMPLE = "python -m flatfed rerun results/published/cifar10-cnn/runs/dir0.6-100/fedavg/seed1/run.json --out again"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    record = "folder or run.json of a finished run, or with --rounds folder or run.so-far.json of one that is not"
    sub.add_argument("record", type=kinds.record, metavar="RUN", help=record)
    sub.add_argument("--out", type=kinds.folder, required=True, metavar="DIR", help="folder for the run made again")
    sub.add_argument("--rounds", type=kinds.count, metavar="N", help="make and compare the first N rounds only")
    sub.add_argument("--dataset", type=kinds.folder, metavar="DIR", help="its data set (default: resources/<name>)")
    weights = "its pre-trained weights (default: in resources)"
    sub.add_argument("--weights", type=kinds.file, metavar="FILE", help=weights)
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
    weights = options.weights
    if "weights" in description["model"] and weights is None:
        weights = Path(DEFAULT.weights(description["model"]["weights"]))
    algorithms.load(description["update"]["name"])
    models.card(description["model"]["name"])
    device = gpus.demanded(options.device or record.device)
    refuse_place(options.record, options.out)
    metrics = options.record.parent / (LINES_SO_FAR if LINES_SO_FAR in record.files else METRICS)
    before = comparable(metrics, record, options.rounds)
    check(record, dataset, weights)
    for change in changes(record, device):
        print(change, file=sys.stderr)

    with lock.held(options.out):
        after = _train(options, record, dataset, weights, device)
    return compare(before, first_rounds(after, options.rounds), metrics, options.out / METRICS)


def refuse_place(record: Path, out: Path) -> None:
    """Raise DataError where ``out`` is the folder of the ``record``, by whatever path, or of another finished run.

    What was published would be replaced by what is to be held against it, and be the same to the last digit.
    """
    homes = {record.parent.resolve(), record.resolve().parent}
    if out.resolve() in homes:
        raise DataError(f"--out {out}: there lies the run that is to be compared with; a folder of its own is wanted")
    if (out / RECORD).exists():
        raise DataError(f"--out {out}: a finished run lies there; give another folder, or remove it")


def first_rounds(lines: list[Line], rounds: int | None) -> list[Line]:
    """Return the ``lines`` of the first ``rounds``, all where that is None."""
    return [line for line in lines if rounds is None or int(line["round"]) <= rounds]


def comparable(metrics: Path, record: RunRecord, rounds: int | None) -> list[Line]:
    """Return the lines of ``metrics`` to compare with, those of the first ``rounds`` where that is given.

    :raises DataError: they are not there, or fewer rounds than are to be made.
    """
    total, diverged_at = record.description["rounds"], record.diverged_at
    if not metrics.is_file():
        raise DataError(f"{metrics} is not there to compare with; it belongs beside the {RECORD}")
    if rounds is not None and rounds > total:
        raise DataError(f"--rounds {rounds}: the run has {total}")
    record.check_files(metrics.parent, metrics.name)
    lines = _lines(metrics)
    last = int(lines[-1]["round"]) if lines else 0
    if last < (rounds or total) and (rounds is not None or diverged_at is None):
        end = f" (it diverged in round {diverged_at})" if diverged_at is not None else ""
        hint = f"; --rounds {last} makes and compares those" if last else ""
        raise DataError(f"{metrics}: ends with round {last} of {total}{end}: nothing to hold more against{hint}")
    kept = first_rounds(lines, rounds)
    if not kept and diverged_at is None:
        first = lines[0]["round"]
        raise DataError(f"--rounds {rounds}: the first round that was evaluated is {first}; as many at least")
    return kept


def _lines(metrics: Path) -> list[Line]:
    """Return the lines of a metrics.csv; DataError where it is none, or cut."""
    try:
        with open(metrics, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        if any(None in line or None in line.values() or not line["round"].isdigit() for line in lines):
            raise ValueError("a line has not one field for each column")
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise DataError(f"{metrics}: not the metrics of a run ({error!r})") from None
    return lines


def _train(
    options: argparse.Namespace, record: RunRecord, dataset: Path, weights: Path | None, device: str
) -> list[Line]:
    """Deal ``dataset`` as the ``record`` says, train its run in ``options.out`` and return its metrics."""
    from flatfed.data import partition
    from flatfed.engine.job.train import train

    description, dealt = record.description, options.out / "partition.npz"
    partition.make({**description["partition"], "seed": description["seed"]}, dataset, dealt)
    if partition.load(dealt).digest != record.partition_digest:
        raise DataError(f"{dealt}: not the partition of {options.record}: other code deals otherwise")
    finished = train(
        {**description, "executor": {**description["executor"], device: record.executor}},
        dataset,
        dealt,
        options.out,
        code_digest=provenance.run_digest(description),
        weights=weights,
        stop_after=options.rounds,
        device=device,
        threads=options.threads or record.threads,
    )
    return _lines(options.out / (METRICS if finished else LINES_SO_FAR))


def check(record: RunRecord, dataset: Path, weights: Path | None) -> None:
    """Raise DataError where the data set or the weights are not there, or not those of the ``record``."""
    manifest = dataset / manifests.NAME
    if not manifest.exists():
        raise DataError(
            f"{manifest} is not there; make it: snakemake --cores 1 resources/{dataset.name}/dataset.json, "
            f"{run_record.IN_ORDER}"
        )
    if manifests.read(manifest).digest != record.dataset_digest:
        raise DataError(
            f"{dataset}: not the data set that the run was trained on (dataset_digest); "
            f"make it again {run_record.IN_ORDER}"
        )
    if weights is not None:
        from flatfed.models import pretrained

        if pretrained.digest(weights) != record.weights_digest:
            raise DataError(f"{weights}: not the weights that the run began with (weights_digest)")


def changes(record: RunRecord, device: str) -> list[str]:
    """Return a line for everything that may decide the last digits and is not as it was when the run was made."""
    from flatfed.engine.job import machine

    now = machine.machine(machine.pick_device(device), 1)
    lines = []
    if provenance.run_digest(record.description) != record.code_digest:
        lines.append("the code is another one than the run was made with")
    for name, version in record.versions.items():
        if now["versions"].get(name) != version:
            lines.append(f"{name} is {now['versions'].get(name)}, the run was made with {version}")
    for name in ("processor", "gpu"):
        if now["host"][name] != record.host.get(name):
            lines.append(f"{name} is {now['host'][name]}, the run was made on {record.host.get(name)}")
    if device != record.device:
        lines.append(f"device is {device}, the run was made on {record.device}")
    return lines


def compare(before: list[Line], after: list[Line], metrics: Path, now: Path) -> int:
    """Print how the lines ``before``, of the file ``metrics``, compare with those made now; return the exit status.

    It is 0 where they are the same in every column that ``before`` has, clocks aside. ``now`` is the file that a
    finished run has.
    """
    columns = [name for name in (before or [{}])[0] if name != CLOCK]
    new = [name for name in (after or [{}])[0] if name not in (*columns, CLOCK)]
    pairs = list(zip(before, after, strict=False))
    differing = [[name for name in columns if was[name] != made.get(name)] for was, made in pairs]
    first = next((place for place, names in enumerate(differing) if names), len(pairs))
    left_out = f"; not compared: {', '.join([CLOCK, *new])}"
    if first == len(before) == len(after):
        print(f"{now}: all {len(after)} lines are those of {metrics}, digit for digit")
        print(f"compared: {', '.join(columns)}{left_out}")
        return 0
    round_ = max(before, after, key=len)[first]["round"]
    print(f"{now}: differs from {metrics} from round {round_} on{_accuracies_at_the_end(before, after)}")
    if first == len(pairs):
        print(f"the {first} lines before are the same; {len(before)} were there, {len(after)} were made")
    else:
        print(f"in that round differ: {', '.join(differing[first])}; compared: {', '.join(columns)}{left_out}")
    return DIFFERS


def _accuracies_at_the_end(before: list[Line], after: list[Line]) -> str:
    """Return what the accuracy on unseen images is at the end, then and now; "" where it is not known."""
    if not before or not after:
        return ""
    was, is_ = before[-1], after[-1]
    for name in ("test_accuracy", "validation_accuracy"):
        if name in was and name in is_:
            words = name.replace("_", " ")
            return f"; {words} {float(is_[name]):.4f} at the end, it was {float(was[name]):.4f}"
    return ""
