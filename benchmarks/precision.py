"""What ``precision: bfloat16`` does to accuracy: paired differences to float32, beside float32's own noise.

    python benchmarks/precision.py [fedavg feddyn fedsam fedsmoo] [--seeds 5] [--splits dir0.6-100 path3-100]
    python benchmarks/precision.py --protocol fedsmoo-cifar10~cnn --scale paper --data resources/cifar10 \\
        --floor threads --runs FOLDER --record results/published/precision/cnn.csv

Trains every run three times on the same clients, batches and initial weights: in float32, in bfloat16, and in float32
by what adds up in another order, the other executor or (``--floor threads``, cheaper where layers are large enough to
be shared out) another number of threads: what the third differs by is the noise floor. Prints a Markdown table: the
mean accuracy in float32, the differences of all seeds in points, their mean and its 95 % interval (Student's), and all
of them pooled. An accuracy is the mean over the last ``--last`` evaluations.

Without ``--data`` on the preview's embedded digits. ``--record`` is a file with a line for each (split, algorithm,
seed) whose three runs are done; what stands there is not trained again, so the same command goes on, on another
machine as well, and prints the table of a whole record without training. Several calls may share one, each with splits
of its own. With ``--runs`` runs stay there, and one that was stopped goes on.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import experiment  # noqa: E402
from flatfed.data import partition, sources  # noqa: E402
from flatfed.engine.job.train import train  # noqa: E402
from flatfed.errors import FlatFedError  # noqa: E402
from flatfed.experiment import Experiment  # noqa: E402
from flatfed.papers.significance import Interval, interval  # noqa: E402
from flatfed.runs import host  # noqa: E402

#: Name of a way to train -> precision, and whether it adds up in the other order.
WAYS = {"float32": ("float32", False), "bfloat16": ("bfloat16", False), "noise floor": ("float32", True)}
#: Executor -> the other one.
OTHER = {"sequential": "stacked", "stacked": "sequential"}
#: What a line of a record names before the accuracies, in percent; after them comes the processor.
KEYS = ("scale", "protocol", "split", "algorithm", "seed", "floor", "last")


def accuracy(description: dict, data: Path, dealt: Path, out: Path, threads: int, options: argparse.Namespace) -> float:
    """Train a run where it is not done, and return the mean of its last accuracies, in percent."""
    if not (out / "run.json").exists():
        train(description, data, dealt, out, device=options.device, threads=threads)
    with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
        lines = [float(line["test_accuracy"]) for line in csv.DictReader(file)]
    return 100 * statistics.fmean(lines[-options.last :])


def three(
    known: Experiment, split: str, algorithm: str, seed: int, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """Return way -> accuracy of one seed, in percent."""
    run = known.run(options.scale, options.protocol, split, algorithm, seed)
    data = options.data or folder / "data"
    if not data.exists():
        sources.fetch(known.dataset_spec(run.dataset), data)
    dealt = folder / split / f"seed{seed}.npz"
    if not dealt.exists():
        partition.make(known.partition_spec(options.scale, options.protocol, split, seed), data, dealt)
    found = {}
    for way, (precision, otherwise) in WAYS.items():
        description, threads = {**run.description, "precision": precision}, options.threads
        if otherwise and options.floor == "executor":
            executors = run.description["executor"]
            description["executor"] = {device: OTHER[name] for device, name in executors.items()}
        elif otherwise:
            threads = options.other_threads
        out = folder / split / algorithm / str(seed) / way.replace(" ", "-")
        found[way] = accuracy(description, data, dealt, out, threads, options)
    return found


def recorded(record: Path) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the lines of a record: what they name -> way -> accuracy."""
    if not record.exists():
        return {}
    with open(record, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return {tuple(line[key] for key in KEYS): {way: float(line[way]) for way in WAYS} for line in lines}


def accuracies(
    known: Experiment, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """Give split, algorithm and way -> accuracy of every seed, in percent, and add to the record what is not in it."""
    record = options.record or folder / "record.csv"
    for split in options.splits:
        for algorithm in options.algorithms:
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for seed in range(1, options.seeds + 1):
                named = (options.scale, options.protocol, split, algorithm, seed, options.floor, options.last)
                accuracy_of = recorded(record).get(tuple(map(str, named)))
                if accuracy_of is None:
                    accuracy_of = three(known, split, algorithm, seed, folder, options)
                    begun = record.exists()
                    record.parent.mkdir(parents=True, exist_ok=True)
                    with open(record, "a", newline="", encoding="utf-8") as file:
                        lines = csv.writer(file, lineterminator="\n")
                        if not begun:
                            lines.writerow((*KEYS, *WAYS, "processor"))
                        lines.writerow((*named, *(f"{accuracy_of[way]:.4f}" for way in WAYS), host.processor()))
                for way in WAYS:
                    found[way].append(accuracy_of[way])
            yield split, algorithm, found


def differences(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the mean difference, seed by seed, with its interval."""
    return interval([a - b for a, b in zip(ours, theirs, strict=True)])


def told(gap: Interval) -> str:
    """Write a mean of differences and its interval, in points."""
    return f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def main() -> None:
    """Parse the arguments, train, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "feddyn", "fedsam", "fedsmoo"])
    parser.add_argument("--protocol", default="fedsmoo-cifar10")
    parser.add_argument("--scale", default="preview", choices=["preview", "paper"])
    parser.add_argument("--data", type=Path, metavar="DIR", help="the data set's folder, where it is not made here")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where the runs stay (default: nowhere)")
    parser.add_argument("--record", type=Path, metavar="CSV", help="where the accuracies stay (default: with the runs)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", nargs="+", default=["dir0.6-100", "path3-100"])
    parser.add_argument("--last", type=int, default=5, help="evaluations that an accuracy is the mean of")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--floor", default="executor", choices=["executor", "threads"], help="what adds up otherwise")
    parser.add_argument("--other-threads", type=int, default=2, help="of the noise floor, with --floor threads")
    options = parser.parse_args()
    known = experiment.load(ROOT)
    try:
        for split in options.splits:
            for algorithm in options.algorithms:
                known.run(options.scale, options.protocol, split, algorithm, 1)
    except FlatFedError as error:
        parser.error(f"{error} (algorithms stand before the options)")
    pooled: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in WAYS if way != "float32"}
    print("| split | algorithm | float32 (%) | against it | points, seed by seed | mean and 95 % interval |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as temporary:
        for split, algorithm, found in accuracies(known, options.runs or Path(temporary), options):
            plain = found["float32"]
            for way, (ours, theirs) in pooled.items():
                each = ", ".join(f"{a - b:+.2f}" for a, b in zip(found[way], plain, strict=True))
                mean = f"{statistics.fmean(plain):.2f}"
                gap = told(differences(found[way], plain))
                print(f"| {split} | {algorithm} | {mean} | {way} | {each} | {gap} |", flush=True)
                ours += found[way]
                theirs += plain
    for way, (ours, theirs) in pooled.items():
        print(f"| all | all | | {way} | {len(ours)} differences | {told(differences(ours, theirs))} |")


if __name__ == "__main__":
    main()
