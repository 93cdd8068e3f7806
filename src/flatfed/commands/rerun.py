"""``flatfed rerun``: a run made again from its run.json, and its metrics held against those beside it."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from flatfed import algorithms, gpus
from flatfed.commands import arguments
from flatfed.errors import DataError, FlatFedError

#: Exit status where the metrics are not the same.
DIFFERS = 1


def add(commands: Any) -> None:
    """Add the sub-command to the command line."""
    sub = arguments._add(
        commands,
        "rerun",
        "make a run again from its run.json and compare",
        "Deals the data set as the record says, trains with the same executor, device and number of threads, and\n"
        "compares metrics.csv with the one beside the record, clocks aside. Says first what is not as it was: code,\n"
        "versions, machine. Data set, partition and pre-trained weights must be those of the record.\n"
        "Exit status: 0 where all lines are the same digit for digit, 1 where they are not.",
        "python -m flatfed rerun results/published/cifar10-cnn/runs/dir0.6-100/fedavg/seed1/run.json --out again",
    )
    sub.add_argument("record", type=Path, metavar="RUN_JSON", help="the run.json of a finished run")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the run made again")
    sub.add_argument("--dataset", type=Path, metavar="DIR", help="its data set (default: resources/<name>)")
    sub.add_argument("--weights", type=Path, metavar="FILE", help="its pre-trained weights (default: in resources)")
    sub.add_argument("--device", choices=("cpu", "cuda"), help="the device (default: the record's)")
    sub.add_argument("--threads", type=arguments.count, metavar="N", help="CPU threads (default: the record's)")


def rerun(options: argparse.Namespace) -> int:
    """Make the run of the command line again; return the exit status.

    :raises DataError: the record is damaged, or data, partition or weights are not those of the run.
    :raises FlatFedError: the device is not there.
    """
    record = read(options.record)
    description = record["description"]
    dataset = options.dataset or Path("resources", description["dataset"]["name"])
    weights = options.weights
    if "weights" in description["model"] and weights is None:
        from flatfed.models import pretrained

        weights = Path(pretrained.path("resources", description["model"]["weights"]))
    device = gpus.demanded(options.device or record["device"])
    place = {"device": device, "threads": options.threads or record["threads"]}
    check(record, dataset, weights)
    for line in changed(record, place["device"]):
        print(line, file=sys.stderr)

    from flatfed import run_lock

    with run_lock.held(options.out):
        _train(options, record, dataset, weights, place)
    return compared(options.record.parent / "metrics.csv", options.out / "metrics.csv")


def _train(
    options: argparse.Namespace,
    record: dict[str, Any],
    dataset: Path,
    weights: Path | None,
    place: dict[str, Any],
) -> None:
    """Deal ``dataset`` as the ``record`` says and train its run in ``options.out``."""
    from flatfed import provenance
    from flatfed.data import partition
    from flatfed.engine import train

    description, dealt = record["description"], options.out / "partition.npz"
    partition.make({**description["partition"], "seed": description["seed"]}, dataset, dealt)
    if partition.load(dealt).digest != record["partition_digest"]:
        raise DataError(f"{dealt}: not the partition of {options.record}: other code deals otherwise")
    wanted = {**description, "executor": {**description["executor"], place["device"]: record["executor"]}}
    code = provenance.run_digest(description)
    train.train(wanted, dataset, dealt, options.out, code_digest=code, weights=weights, **place)


def read(path: Path) -> dict[str, Any]:
    """Return the record in the file ``path``; DataError where it is none of a finished run."""
    from flatfed.files import read_json

    keys = ("description", "device", "threads", "executor", "dataset_digest", "partition_digest", "code_digest")
    try:
        record = read_json(path)
        absent = [key for key in (*keys, "versions", "host") if key not in record]
        if not absent:
            record["description"] = algorithms.today(record["description"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not the record of a run ({error!r})") from None
    if absent:
        raise DataError(f"{path}: not the record of a run: {', '.join(absent)} is missing")
    return record


def check(record: dict[str, Any], dataset: Path, weights: Path | None) -> None:
    """Raise DataError where the data set or the weights are not there, or not those of the ``record``."""
    from flatfed.files import read_json

    manifest = dataset / "dataset.json"
    if not manifest.exists():
        raise DataError(f"{manifest} is not there; make it: snakemake --cores 1 resources/{dataset.name}/dataset.json")
    if read_json(manifest)["digest"] != record["dataset_digest"]:
        raise DataError(f"{dataset}: not the data set that the run was trained on (dataset_digest)")
    if weights is not None:
        from flatfed.models import pretrained

        if pretrained.digest(weights) != record.get("weights_digest"):
            raise DataError(f"{weights}: not the weights that the run began with (weights_digest)")


def changed(record: dict[str, Any], device: str) -> list[str]:
    """Return a line for everything that is not as when the run was made, though it may decide the last digits."""
    from flatfed import provenance
    from flatfed.engine import train

    now = train.machine(train.pick_device(device), 1)
    lines = []
    if provenance.run_digest(record["description"]) != record["code_digest"]:
        lines.append("the code is another one than the run was made with")
    for name, version in record["versions"].items():
        if now["versions"].get(name) != version:
            lines.append(f"{name} is {now['versions'].get(name)}, the run was made with {version}")
    for name in ("processor", "gpu"):
        if now["host"][name] != record["host"][name]:
            lines.append(f"{name} is {now['host'][name]}, the run was made on {record['host'][name]}")
    if device != record["device"]:
        lines.append(f"device is {device}, the run was made on {record['device']}")
    return lines


def compared(then: Path, now: Path) -> int:
    """Print how the metrics of two runs compare, clocks aside; return 0 where they are the same.

    :raises FlatFedError: there are no metrics to compare with.
    """
    if not then.exists():
        raise FlatFedError(f"{then} is not there to compare with; the run made again is whole: {now.parent}")
    before, after = (
        [{key: value for key, value in line.items() if key != "seconds"} for line in csv.DictReader(path.open())]
        for path in (then, now)
    )
    same = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if same is None and len(before) == len(after):
        print(f"{now}: all {len(after)} lines are those of {then}, digit for digit")
        return 0
    first = before[same]["round"] if same is not None else min(len(before), len(after)) + 1
    name = next(key for key in after[-1] if key.endswith("_accuracy"))
    was, is_ = (float(lines[-1][name]) for lines in (before, after))
    words = f"{name.replace('_', ' ')} {is_:.4f} at the end, it was {was:.4f}"
    print(f"{now}: differs from {then} from round {first} on; {words}")
    return DIFFERS
