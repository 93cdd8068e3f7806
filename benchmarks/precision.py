"""Effect of ``precision: bfloat16`` on accuracy: paired differences to float32, and float32's noise floor.

    python benchmarks/precision.py [fedavg feddyn fedsam fedsmoo] [--seeds 5] [--splits dir0.6-100 path3-100]
    python benchmarks/precision.py --protocol fedsmoo-cifar10~cnn --scale paper --data resources/cifar10 \\
        --floor threads --runs FOLDER --record results/published/precision/cnn.csv

Trains every run in float32, in bfloat16, and in float32 with another order of sums: the other executor or, with
``--floor threads``, two threads. An accuracy is the mean of the last five evaluations. The Markdown table has the
differences with 95 % intervals (Student's t), pooled by run and by split and seed. bfloat16 passes if the last interval
is within half a point, or contains zero and is not wider than the floor's.

Does not train the lines of ``--record`` again. ``--runs`` keeps unfinished runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.stats import ttest_1samp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import experiment
from flatfed.commands import kinds
from flatfed.data import partition, sources
from flatfed.engine import precision as formats
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.train import train
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, run_specs
from flatfed.runs import identity
from flatfed.runs import record as records

HALF_A_POINT = 0.5
THREADS, FLOOR_THREADS, LAST = 1, 2, 5
#: Variant of a run -> precision, and whether the order of sums differs.
VARIANTS = {"float32": ("float32", False), "bfloat16": ("bfloat16", False), "noise floor": ("float32", True)}
OTHER_EXECUTOR = {"sequential": "stacked", "stacked": "sequential"}
#: First columns of a record.
KEYS = ("scale", "protocol", "split", "algorithm", "seed", "threads", "floor", "last")
PROCESSOR = "processor"
Values = tuple[dict[str, float], str]  # variant -> accuracy in percent; processor


def finished(
    description: dict, data: Path, partition_file: Path, out: Path, threads: int, device: str
) -> tuple[list[float], str]:
    """Return the accuracies of a run in percent, and its processor; train it if necessary."""
    if not (out / records.RECORD).exists():
        train(description, data, partition_file, out, device=device, threads=threads)
    where, run = str(out / records.RECORD), records.read(out / records.RECORD)
    identity.check_description(where, run, description)
    identity.check_data(where, run, str(partition_file))
    executor = description["executor"][run.device]
    for key, actual, expected in (("threads", run.threads, threads), ("executor", run.executor, executor)):
        if actual != expected:
            raise DataError(f"{where}: {key} is {actual}, not {expected}; use another --runs folder")
    if run.diverged_at is not None:
        raise DataError(f"{where}: diverged in round {run.diverged_at}; there is nothing to compare")
    run.check_files(out, records.METRICS)
    with open(out / records.METRICS, newline="", encoding="utf-8") as file:
        accuracies = [100 * float(line["test_accuracy"]) for line in csv.DictReader(file)]
    return accuracies, run.host["gpu"] or run.host["processor"]


def trained(
    exp: Experiment, split: str, algorithm: str, seed: int, folder: Path, options: argparse.Namespace
) -> Values:
    run = run_specs.run(exp, options.scale, options.protocol, split, algorithm, seed)
    data = options.data or folder / "data"
    if not data.exists():
        sources.fetch(run_specs.dataset_spec(exp.catalog, run.dataset), data)
    partition_file = folder / split / f"seed{seed}.npz"
    if not partition_file.exists():
        spec = run_specs.partition_spec(exp, options.scale, options.protocol, split, seed)
        partition.make(spec, data, partition_file)
    accuracy_of, processors = {}, set()
    for variant, (precision, other_order) in VARIANTS.items():
        description, threads = {**run.description, "precision": precision}, THREADS
        if other_order and options.floor == "executor":
            executors = run.description["executor"]
            description["executor"] = {device: OTHER_EXECUTOR[name] for device, name in executors.items()}
        elif other_order:
            threads = FLOOR_THREADS
        out = folder / split / algorithm / str(seed) / variant.replace(" ", "-")
        accuracies, processor = finished(description, data, partition_file, out, threads, options.device)
        if len(accuracies) < LAST:
            raise DataError(f"{out / records.METRICS}: has {len(accuracies)} evaluations, expected at least {LAST}")
        accuracy_of[variant] = statistics.fmean(accuracies[-LAST:])
        processors.add(processor)
    return accuracy_of, " and ".join(sorted(processors))


def recorded(record: Path) -> dict[tuple[str, ...], Values]:
    """Return the lines of a record by their :data:`KEYS`."""
    if not record.exists():
        return {}
    with open(record, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        columns = [*KEYS, *VARIANTS, PROCESSOR]
        if lines.fieldnames != columns:
            raise DataError(f"{record}: has the columns {', '.join(lines.fieldnames or [])}, not {', '.join(columns)}")
        return {
            tuple(line[key] for key in KEYS): ({name: float(line[name]) for name in VARIANTS}, line[PROCESSOR])
            for line in lines
        }


def line_keys(split: str, algorithm: str, seed: int, options: argparse.Namespace) -> tuple[str, ...]:
    floor = "other executor" if options.floor == "executor" else f"{FLOOR_THREADS} threads"
    return tuple(map(str, (options.scale, options.protocol, split, algorithm, seed, THREADS, floor, LAST)))


def all_accuracies(
    exp: Experiment, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[str, str, dict[str, list[float]], set[str]]]:
    """Yield split, algorithm, variant -> accuracy of every seed, and processors."""
    record = options.record or folder / "record.csv"
    for split in options.splits:
        for algorithm in options.algorithms:
            accuracies: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
            processors = set()
            for seed in range(1, options.seeds + 1):
                keys = line_keys(split, algorithm, seed, options)
                values = recorded(record).get(keys)
                if values is None:
                    values = trained(exp, split, algorithm, seed, folder, options)
                    is_new = not record.exists()
                    record.parent.mkdir(parents=True, exist_ok=True)
                    with open(record, "a", newline="", encoding="utf-8") as file:
                        lines = csv.writer(file, lineterminator="\n")
                        if is_new:
                            lines.writerow((*KEYS, *VARIANTS, PROCESSOR))
                        lines.writerow((*keys, *(f"{values[0][variant]:.4f}" for variant in VARIANTS), values[1]))
                processors.add(values[1])
                for variant in VARIANTS:
                    accuracies[variant].append(values[0][variant])
            yield split, algorithm, accuracies, processors


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def interval(gaps: Sequence[float]) -> Interval:
    mean = statistics.fmean(gaps)
    if len(gaps) < 2:
        return Interval(mean, -math.inf, math.inf)
    return Interval(mean, *ttest_1samp(gaps, 0).confidence_interval(0.95))


def verdict(gap: Interval, floor: Interval) -> str:
    if gap.low > -HALF_A_POINT and gap.high < HALF_A_POINT:
        return f"passes: {gap} is within half a point"
    if gap.low <= 0 <= gap.high and gap.high - gap.low <= floor.high - floor.low:
        return f"passes: {gap} contains zero and is not wider than the floor's {floor}"
    return f"does not pass: {gap} is not within half a point, and the floor is {floor}"


def check(exp: Experiment, options: argparse.Namespace) -> None:
    """Refuse missing runs and unsuitable devices before the first training."""
    lines = recorded(options.record) if options.record else {}
    missing = False
    for split in options.splits:
        for algorithm in options.algorithms:
            run = run_specs.run(exp, options.scale, options.protocol, split, algorithm, 1)
            seeds = range(1, options.seeds + 1)
            missing = missing or any(line_keys(split, algorithm, seed, options) not in lines for seed in seeds)
    if not missing:
        return
    device = pick_device(options.device)
    formats.check_units({**run.description, "precision": "bfloat16"}, device)
    if options.floor == "threads" and device.type != "cpu":
        raise FlatFedError("--floor threads: threads do not change the sums of a GPU; use --floor executor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "feddyn", "fedsam", "fedsmoo"])
    parser.add_argument("--protocol", default="fedsmoo-cifar10")
    parser.add_argument("--scale", default="preview", choices=["preview", "paper"])
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the dataset (default: fetch it)")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="folder of the runs (default: temporary)")
    parser.add_argument("--record", type=Path, metavar="CSV", help="file of the accuracies (default: with the runs)")
    parser.add_argument("--seeds", type=kinds.count, default=5)
    parser.add_argument("--splits", nargs="+", default=["dir0.6-100", "path3-100"])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--floor", default="executor", choices=["executor", "threads"])
    options = parser.parse_args()
    exp = experiment.load(ROOT)
    try:
        check(exp, options)
    except FlatFedError as error:
        parser.error(f"{error} (algorithms precede the options)")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            table(exp, options.runs or Path(temporary), options)
    except FlatFedError as error:
        sys.exit(str(error))


def table(exp: Experiment, folder: Path, options: argparse.Namespace) -> None:
    """Train missing runs, and print the table line by line."""
    variants = [variant for variant in VARIANTS if variant != "float32"]
    pooled: dict[str, list[float]] = {variant: [] for variant in variants}
    by_data: dict[str, dict[tuple[str, int], list[float]]] = {variant: {} for variant in variants}
    all_processors = set()
    column = "bfloat16 minus float32, seed by seed (points)"
    print(f"| split | algorithm | float32 (%) | {column} | mean and 95 % interval | noise floor |")
    print("| --- | --- | --- | --- | --- | --- |")
    for split, algorithm, accuracies, processors in all_accuracies(exp, folder, options):
        plain = accuracies["float32"]
        gaps = {name: [a - b for a, b in zip(accuracies[name], plain, strict=True)] for name in variants}
        listed = ", ".join(f"{gap:+.2f}" for gap in gaps["bfloat16"])
        both = " | ".join(str(interval(gaps[variant])) for variant in variants)
        print(f"| {split} | {algorithm} | {statistics.fmean(plain):.2f} | {listed} | {both} |", flush=True)
        all_processors |= processors
        for variant in variants:
            pooled[variant] += gaps[variant]
            for seed, gap in enumerate(gaps[variant], 1):
                by_data[variant].setdefault((split, seed), []).append(gap)
    means = {variant: [statistics.fmean(gaps) for gaps in by_data[variant].values()] for variant in variants}
    for unit, gaps in (("differences", pooled), ("means of a split and seed", means)):
        intervals = [interval(gaps[variant]) for variant in variants]
        print(f"| all | all | | {len(gaps['bfloat16'])} {unit} | {' | '.join(map(str, intervals))} |")
    print(f"\n{verdict(*intervals)}; computed by {', '.join(sorted(all_processors))}")


if __name__ == "__main__":
    main()
