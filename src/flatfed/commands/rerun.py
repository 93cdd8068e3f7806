"""``flatfed rerun``: a run made again from its run.json, and its metrics held against those beside it."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from flatfed import algorithms, gpus, models
from flatfed.commands import kinds, run_record
from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs.places import DEFAULT
from flatfed.runs.record import RunRecord

#: Exit status where the metrics are not the same.
DIFFERS = 1

#: The column of metrics.csv that is of a clock.
CLOCK = "seconds"
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
    place = {"device": device, "threads": options.threads or record.threads}
    refuse_place(options.record, options.out)
    lines = next((name for name in record.files or () if name.endswith(".csv")), records.METRICS)
    metrics = options.record.parent / lines
    before = comparable(metrics, record, options.rounds)
    check(record, dataset, weights)
    for line in changed(record, place["device"]):
        print(line, file=sys.stderr)

    from flatfed.runs import lock

    with lock.held(options.out):
        after = _train(options, record, dataset, weights, place)
    if options.rounds is not None:
        after = [line for line in after if int(line["round"]) <= options.rounds]
    return compared(before, after, metrics, options.out)


def refuse_place(record: Path, out: Path) -> None:
    """Raise DataError where ``out`` is the folder of the ``record``, by whatever path, or of another finished run.

    What was published would be replaced by what is to be held against it, and be the same to the last digit.
    """
    homes = {record.parent.resolve(), record.resolve().parent}
    if out.resolve() in homes:
        raise DataError(f"--out {out}: there lies the run that is to be compared with; a folder of its own is wanted")
    if (out / records.RECORD).exists():
        raise DataError(f"--out {out}: a finished run lies there; give another folder, or remove it")


def comparable(metrics: Path, record: RunRecord, rounds: int | None) -> list[dict[str, str]]:
    """Return the lines of ``metrics`` to compare with, those of the first ``rounds`` where that is given.

    :raises DataError: they are not there, or fewer rounds than are to be made.
    """
    whole, diverged = record.description["rounds"], record.diverged_at
    if not metrics.is_file():
        raise DataError(f"{metrics} is not there to compare with; it belongs beside the run.json")
    if rounds is not None and rounds > whole:
        raise DataError(f"--rounds {rounds}: the run has {whole}")
    if warning := record.check_files(metrics.parent, metrics.name):
        print(warning, file=sys.stderr)
    lines = _lines(metrics)
    last = int(lines[-1]["round"]) if lines else 0
    if last < (rounds or whole) and (rounds is not None or diverged is None):
        end = f" (it diverged in round {diverged})" if diverged is not None else ""
        hint = f"; --rounds {last} makes and compares those" if last else ""
        raise DataError(f"{metrics}: ends with round {last} of {whole}{end}: nothing to hold more against{hint}")
    kept = [line for line in lines if rounds is None or int(line["round"]) <= rounds]
    if not kept and diverged is None:
        first = lines[0]["round"]
        raise DataError(f"--rounds {rounds}: the first round that was evaluated is {first}; as many at least")
    return kept


def _lines(metrics: Path) -> list[dict[str, str]]:
    """Return the lines of a metrics.csv, column -> text; DataError where it is none, or cut."""
    try:
        with open(metrics, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        if any(None in line or None in line.values() or not line["round"].isdigit() for line in lines):
            raise ValueError("a line has not one field for each column")
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise DataError(f"{metrics}: not the metrics of a run ({error!r})") from None
    return lines


def _train(
    options: argparse.Namespace,
    record: RunRecord,
    dataset: Path,
    weights: Path | None,
    place: dict[str, Any],
) -> list[dict[str, str]]:
    """Deal ``dataset`` as the ``record`` says, train its run in ``options.out`` and return its metrics."""
    from flatfed.data import partition
    from flatfed.engine.job.train import train
    from flatfed.runs import provenance

    description, dealt = record.description, options.out / "partition.npz"
    partition.make({**description["partition"], "seed": description["seed"]}, dataset, dealt)
    if partition.load(dealt).digest != record.partition_digest:
        raise DataError(f"{dealt}: not the partition of {options.record}: other code deals otherwise")
    wanted = {**description, "executor": {**description["executor"], place["device"]: record.executor}}
    code = provenance.run_digest(description)
    whole = train(
        wanted, dataset, dealt, options.out, code_digest=code, weights=weights, stop_after=options.rounds, **place
    )
    return _lines(options.out / (records.METRICS if whole else records.LINES_SO_FAR))


def check(record: RunRecord, dataset: Path, weights: Path | None) -> None:
    """Raise DataError where the data set or the weights are not there, or not those of the ``record``."""
    manifest = dataset / manifests.NAME
    if not manifest.exists():
        raise DataError(f"{manifest} is not there; make it: snakemake --cores 1 resources/{dataset.name}/dataset.json")
    if manifests.read(manifest).digest != record.dataset_digest:
        raise DataError(f"{dataset}: not the data set that the run was trained on (dataset_digest)")
    if weights is not None:
        from flatfed.models import pretrained

        if pretrained.digest(weights) != record.weights_digest:
            raise DataError(f"{weights}: not the weights that the run began with (weights_digest)")


def changed(record: RunRecord, device: str) -> list[str]:
    """Return a line for everything that is not as when the run was made, though it may decide the last digits."""
    from flatfed.engine.job import machine
    from flatfed.runs import provenance

    now = machine.machine(machine.pick_device(device), 1)
    lines = []
    if provenance.run_digest(record.description) != record.code_digest:
        lines.append("the code is another one than the run was made with")
    for name, version in record.versions.items():
        if now["versions"].get(name) != version:
            lines.append(f"{name} is {now['versions'].get(name)}, the run was made with {version}")
    for name in ("processor", "gpu"):
        if now["host"][name] != record.host[name]:
            lines.append(f"{name} is {now['host'][name]}, the run was made on {record.host[name]}")
    if device != record.device:
        lines.append(f"device is {device}, the run was made on {record.device}")
    return lines


def compared(before: list[dict[str, str]], after: list[dict[str, str]], metrics: Path, out: Path) -> int:
    """Print how the lines of ``metrics`` from ``before`` compare with those made now in ``out``; return 0 where they
    are the same in every column that ``before`` has, clocks aside."""
    now, columns = out / "metrics.csv", [name for name in (before or [{}])[0] if name != CLOCK]
    news = [name for name in (after or [{}])[0] if name not in (*columns, CLOCK)]
    same = next((k for k, lines in enumerate(zip(before, after, strict=False)) if not _same(*lines, columns)), None)
    left_out = f"; not compared: {', '.join([CLOCK, *news])}"
    if same is None and len(before) == len(after):
        print(f"{now}: all {len(after)} lines are those of {metrics}, digit for digit")
        print(f"compared: {', '.join(columns)}{left_out}")
        return 0
    both = min(len(before), len(after))
    first = max(before, after, key=len)[both if same is None else same]["round"]
    print(f"{now}: differs from {metrics} from round {first} on{_end(before, after)}")
    if same is None:
        print(f"the {both} lines before are the same; {len(before)} were there, {len(after)} were made")
    else:
        differing = [name for name in columns if not _same(before[same], after[same], [name])]
        print(f"in that round differ: {', '.join(differing)}; compared: {', '.join(columns)}{left_out}")
    return DIFFERS


def _same(was: dict[str, str], is_: dict[str, str], columns: list[str]) -> bool:
    return all(name in is_ and was[name] == is_[name] for name in columns)


def _end(before: list[dict[str, str]], after: list[dict[str, str]]) -> str:
    """Say what the unseen images' accuracy is at the end, then and now."""
    if not before or not after:
        return ""
    both = before[-1].keys() & after[-1].keys()
    name = next((key for key in ("test_accuracy", "validation_accuracy") if key in both), None)
    if name is None:
        return ""
    was, is_ = (float(lines[-1][name]) for lines in (before, after))
    return f"; {name.replace('_', ' ')} {is_:.4f} at the end, it was {was:.4f}"
