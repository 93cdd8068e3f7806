"""What ``precision: bfloat16`` does to accuracy: paired differences to float32, beside float32's own noise.

    python benchmarks/precision.py [fedavg feddyn fedsam fedsmoo] [--seeds 5] [--splits dir0.6-100 path3-100]
    python benchmarks/precision.py --protocol fedsmoo-cifar10~cnn --scale paper --data resources/cifar10 \\
        --floor threads --runs FOLDER --record results/published/precision/cnn.csv

Trains every run three times on the same clients, batches and initial weights: in float32, in bfloat16, and in float32
by what adds up in another order, the other executor or (``--floor threads``, cheaper where layers are large enough to
be shared out) another number of threads: what the third differs by is the noise floor. Prints a Markdown table: the
mean accuracy in float32, the differences of all seeds in points, their mean and its 95 % interval (Student's), and all
of them pooled, first as they are, then as one mean for each split and seed, whose algorithms share clients, batches and
initial weights. By the latter bfloat16 passes or not: their interval lies within half a point, or holds zero and is no
wider than the floor's. An accuracy is the mean over the last ``--last`` evaluations.

Without ``--data`` on the preview's embedded digits. ``--record`` is a file with a line for each (split, algorithm,
seed) whose three runs are done; what stands there is not trained again, so the same command goes on, on another
machine as well, and prints the table of a whole record without training. Several calls may share one, each with splits
of its own. With ``--runs`` runs stay there, and one that was stopped goes on; a run of another description, data or
number of threads is refused, and so is one that diverged.
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

from flatfed import experiment  # noqa: E402
from flatfed.data import partition, sources  # noqa: E402
from flatfed.engine import precision as formats  # noqa: E402
from flatfed.engine.job.machine import pick_device  # noqa: E402
from flatfed.engine.job.train import train  # noqa: E402
from flatfed.errors import DataError, FlatFedError  # noqa: E402
from flatfed.experiment import Experiment, run_specs  # noqa: E402
from flatfed.runs import identity  # noqa: E402
from flatfed.runs import record as records  # noqa: E402

HALF_A_POINT = 0.5
#: Name of a way to train -> precision, and whether it adds up in the other order.
WAYS = {"float32": ("float32", False), "bfloat16": ("bfloat16", False), "noise floor": ("float32", True)}
#: Executor -> the other one.
OTHER = {"sequential": "stacked", "stacked": "sequential"}
#: What a line of a record names before the accuracies, in percent; after them comes the processor.
KEYS = ("scale", "protocol", "split", "algorithm", "seed", "threads", "floor", "last")
PROCESSOR = "processor"


def finished(
    description: dict, data: Path, dealt: Path, out: Path, threads: int, device: str
) -> tuple[list[float], str]:
    """Train a run where it is not done; return its accuracies in percent, and what computed it.

    :raises DataError: the run that is there is another one, or it diverged.
    """
    if not (out / records.RECORD).exists():
        train(description, data, dealt, out, device=device, threads=threads)
    where, run = str(out / records.RECORD), records.read(out / records.RECORD)
    identity.check_description(where, run, description)
    identity.check_data(where, run, str(dealt))
    executor = description["executor"][run.device]
    for key, its, ours in (("threads", run.threads, threads), ("executor", run.executor, executor)):
        if its != ours:
            raise DataError(f"{where}: {key} is {its}, here {ours}; another --runs folder, or the same as then")
    if run.diverged_at is not None:
        raise DataError(f"{where}: diverged in round {run.diverged_at}, and has no last evaluations to compare")
    run.check_files(out, records.METRICS)
    with open(out / records.METRICS, newline="", encoding="utf-8") as file:
        accuracies = [100 * float(line["test_accuracy"]) for line in csv.DictReader(file)]
    return accuracies, run.host["gpu"] or run.host["processor"]


def three(
    known: Experiment, split: str, algorithm: str, seed: int, folder: Path, options: argparse.Namespace
) -> tuple[dict[str, float], str]:
    """Return way -> accuracy of one seed, in percent, and what computed them."""
    run = run_specs.run(known, options.scale, options.protocol, split, algorithm, seed)
    data = options.data or folder / "data"
    if not data.exists():
        sources.fetch(run_specs.dataset_spec(known.catalog, run.dataset), data)
    dealt = folder / split / f"seed{seed}.npz"
    if not dealt.exists():
        partition.make(run_specs.partition_spec(known, options.scale, options.protocol, split, seed), data, dealt)
    found, processors = {}, set()
    for way, (precision, otherwise) in WAYS.items():
        description, threads = {**run.description, "precision": precision}, options.threads
        if otherwise and options.floor == "executor":
            executors = run.description["executor"]
            description["executor"] = {device: OTHER[name] for device, name in executors.items()}
        elif otherwise:
            threads = options.other_threads
        out = folder / split / algorithm / str(seed) / way.replace(" ", "-")
        lines, processor = finished(description, data, dealt, out, threads, options.device)
        if len(lines) < options.last:
            raise DataError(f"{out / records.METRICS}: has {len(lines)} evaluations, --last asks for {options.last}")
        found[way] = statistics.fmean(lines[-options.last :])
        processors.add(processor)
    return found, " and ".join(sorted(processors))


def recorded(record: Path) -> dict[tuple[str, ...], tuple[dict[str, float], str]]:
    """Return the lines of a record: what they name -> way -> accuracy, and what computed them.

    :raises DataError: it is no record of this script.
    """
    if not record.exists():
        return {}
    with open(record, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        wanted = [*KEYS, *WAYS, PROCESSOR]
        if lines.fieldnames != wanted:
            raise DataError(f"{record}: has the columns {', '.join(lines.fieldnames or [])}, not {', '.join(wanted)}")
        return {
            tuple(each[key] for key in KEYS): ({way: float(each[way]) for way in WAYS}, each[PROCESSOR])
            for each in lines
        }


def line(split: str, algorithm: str, seed: int, options: argparse.Namespace) -> tuple[str, ...]:
    """Return what the record's line of a seed names."""
    floor = "other executor" if options.floor == "executor" else f"{options.other_threads} threads"
    run = (options.scale, options.protocol, split, algorithm, seed)
    return tuple(map(str, (*run, options.threads, floor, options.last)))


def accuracies(
    known: Experiment, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[str, str, dict[str, list[float]], set[str]]]:
    """Give split, algorithm, way -> accuracy of every seed, in percent, and what computed them.

    What is not in the record is added to it.
    """
    record = options.record or folder / "record.csv"
    for split in options.splits:
        for algorithm in options.algorithms:
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            processors = set()
            for seed in range(1, options.seeds + 1):
                named = line(split, algorithm, seed, options)
                known_line = recorded(record).get(named)
                accuracy_of, processor = known_line or three(known, split, algorithm, seed, folder, options)
                if known_line is None:
                    begun = record.exists()
                    record.parent.mkdir(parents=True, exist_ok=True)
                    with open(record, "a", newline="", encoding="utf-8") as file:
                        lines = csv.writer(file, lineterminator="\n")
                        if not begun:
                            lines.writerow((*KEYS, *WAYS, PROCESSOR))
                        lines.writerow((*named, *(f"{accuracy_of[way]:.4f}" for way in WAYS), processor))
                processors.add(processor)
                for way in WAYS:
                    found[way].append(accuracy_of[way])
            yield split, algorithm, found, processors


def differences(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the differences of runs that are pairs."""
    return [a - b for a, b in zip(ours, theirs, strict=True)]


class Interval(NamedTuple):
    """The mean of paired differences and its 95 % interval; infinite bounds for a single seed."""

    mean: float
    low: float
    high: float


def interval(gaps: Sequence[float]) -> Interval:
    """Return the Student interval (95 %) of the mean of ``gaps``, one per seed."""
    mean = statistics.fmean(gaps)
    if len(gaps) < 2:
        return Interval(mean, -math.inf, math.inf)
    return Interval(mean, *ttest_1samp(gaps, 0).confidence_interval(0.95))


def told(gap: Interval) -> str:
    """Write a mean of differences and its interval, in points."""
    return f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def verdict(gap: Interval, floor: Interval) -> str:
    """Say whether bfloat16 passes, by its pooled differences and those of the noise floor."""
    if gap.low > -HALF_A_POINT and gap.high < HALF_A_POINT:
        return f"passes: {told(gap)} lies within half a point"
    if gap.low <= 0 <= gap.high and gap.high - gap.low <= floor.high - floor.low:
        return f"passes: {told(gap)} holds zero and is no wider than the floor's {told(floor)}"
    return f"does not pass: {told(gap)} is not within half a point, and the floor is {told(floor)}"


def check(known: Experiment, options: argparse.Namespace) -> None:
    """Ask for everything before the first training.

    :raises FlatFedError: a run does not exist, no device or units for it, or a floor that adds up in the same order.
    """
    there = recorded(options.record) if options.record else {}
    missing = False
    for split in options.splits:
        for algorithm in options.algorithms:
            run = run_specs.run(known, options.scale, options.protocol, split, algorithm, 1)
            seeds = range(1, options.seeds + 1)
            missing = missing or any(line(split, algorithm, seed, options) not in there for seed in seeds)
    if not missing:
        return
    place = pick_device(options.device)
    formats.check_units({**run.description, "precision": "bfloat16"}, place)
    if options.floor == "threads" and options.threads == options.other_threads:
        raise FlatFedError(f"--other-threads {options.threads}: the same as --threads, which is no noise floor")
    if options.floor == "threads" and place.type != "cpu":
        raise FlatFedError("--floor threads: a GPU does not add up by the host's threads; use --floor executor")


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def main() -> None:
    """Parse the arguments, train, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "feddyn", "fedsam", "fedsmoo"])
    parser.add_argument("--protocol", default="fedsmoo-cifar10")
    parser.add_argument("--scale", default="preview", choices=["preview", "paper"])
    parser.add_argument("--data", type=Path, metavar="DIR", help="the data set's folder, where it is not made here")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where the runs stay (default: nowhere)")
    parser.add_argument("--record", type=Path, metavar="CSV", help="where the accuracies stay (default: with the runs)")
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--splits", nargs="+", default=["dir0.6-100", "path3-100"])
    parser.add_argument("--last", type=positive, default=5, help="evaluations that an accuracy is the mean of")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--floor", default="executor", choices=["executor", "threads"], help="what adds up otherwise")
    parser.add_argument("--other-threads", type=positive, default=2, help="of the noise floor, with --floor threads")
    options = parser.parse_args()
    known = experiment.load(ROOT)
    try:
        check(known, options)
    except FlatFedError as error:
        parser.error(f"{error} (algorithms stand before the options)")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            table(known, options.runs or Path(temporary), options)
    except FlatFedError as error:
        sys.exit(str(error))


def table(known: Experiment, folder: Path, options: argparse.Namespace) -> None:
    """Train what is not recorded, and print the table as it grows."""
    ways = [way for way in WAYS if way != "float32"]
    pooled: dict[str, list[float]] = {way: [] for way in ways}
    by_data: dict[str, dict[tuple[str, int], list[float]]] = {way: {} for way in ways}
    processors = set()
    each = "bfloat16 minus float32, seed by seed (points)"
    print(f"| split | algorithm | float32 (%) | {each} | mean and 95 % interval | noise floor |")
    print("| --- | --- | --- | --- | --- | --- |")
    for split, algorithm, found, computed in accuracies(known, folder, options):
        plain, gaps = found["float32"], {way: differences(found[way], found["float32"]) for way in ways}
        each = ", ".join(f"{gap:+.2f}" for gap in gaps["bfloat16"])
        both = " | ".join(told(interval(gaps[way])) for way in ways)
        print(f"| {split} | {algorithm} | {statistics.fmean(plain):.2f} | {each} | {both} |", flush=True)
        processors |= computed
        for way in ways:
            pooled[way] += gaps[way]
            for seed, gap in enumerate(gaps[way], 1):
                by_data[way].setdefault((split, seed), []).append(gap)
    for what, gaps in (
        ("differences", pooled),
        ("means of a split and seed", {way: [statistics.fmean(g) for g in by_data[way].values()] for way in ways}),
    ):
        both = [interval(gaps[way]) for way in ways]
        print(f"| all | all | | {len(gaps['bfloat16'])} {what} | {' | '.join(map(told, both))} |")
    print(f"\n{verdict(*both)}; computed by {', '.join(sorted(processors))}")


if __name__ == "__main__":
    main()
