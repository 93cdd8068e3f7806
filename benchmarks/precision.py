"""What ``precision: bfloat16`` does to accuracy: paired differences to float32, beside float32's own noise.

    python benchmarks/precision.py [--seeds 5] [--splits dir0.6-100 path3-100] [fedavg feddyn fedsam fedsmoo]
    python benchmarks/precision.py --protocol fedsmoo-cifar10~cnn --scale paper --data resources/cifar10 --runs FOLDER

Trains every run three times on the same clients, batches and initial weights: in float32, in bfloat16, and in float32
with another number of threads, which adds up in another order: what the third differs by is the noise floor. Prints a
Markdown table: the mean accuracy in float32, the differences of all seeds in points, their mean and its 95 % interval
(Student's), and all of them pooled. An accuracy is the mean over the last ``--last`` evaluations.

Without ``--data`` on the preview's embedded digits. With ``--runs`` the runs stay there: the same command goes on.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import experiment  # noqa: E402
from flatfed.data import partition, sources  # noqa: E402
from flatfed.engine.job.train import train  # noqa: E402
from flatfed.papers.significance import Interval, interval  # noqa: E402

#: Name of a way to train -> precision, and whether with the other number of threads.
WAYS = {"float32": ("float32", False), "bfloat16": ("bfloat16", False), "noise floor": ("float32", True)}


def accuracies(folder: Path, split: str, algorithm: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return way -> accuracy of every seed, in percent."""
    known = experiment.load(ROOT)
    data = options.data or folder / "data"
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(1, options.seeds + 1):
        run = known.run(options.scale, options.protocol, split, algorithm, seed)
        if not data.exists():
            sources.fetch(known.dataset_spec(run.dataset), data)
        dealt = folder / split / f"seed{seed}.npz"
        if not dealt.exists():
            partition.make(known.partition_spec(options.scale, options.protocol, split, seed), data, dealt)
        for way, (precision, other) in WAYS.items():
            description = {**run.description, "precision": precision}
            out = folder / split / algorithm / str(seed) / way.replace(" ", "-")
            if not (out / "run.json").exists():
                threads = options.other_threads if other else options.threads
                train(description, data, dealt, out, device=options.device, threads=threads)
            with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
                lines = [float(line["test_accuracy"]) for line in csv.DictReader(file)]
            found[way].append(100 * statistics.fmean(lines[-options.last :]))
    return found


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
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", nargs="+", default=["dir0.6-100", "path3-100"])
    parser.add_argument("--last", type=int, default=5, help="evaluations that an accuracy is the mean of")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--other-threads", type=int, default=2, help="of the noise floor")
    options = parser.parse_args()
    pooled: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in WAYS if way != "float32"}
    print("| split | algorithm | float32 (%) | against it | points, seed by seed | mean and 95 % interval |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        for split in options.splits:
            for algorithm in options.algorithms:
                found = accuracies(folder, split, algorithm, options)
                plain = found["float32"]
                for way, (ours, theirs) in pooled.items():
                    each = ", ".join(f"{a - b:+.2f}" for a, b in zip(found[way], plain, strict=True))
                    mean = f"{statistics.fmean(plain):.2f}"
                    print(
                        f"| {split} | {algorithm} | {mean} | {way} | {each} | {told(differences(found[way], plain))} |",
                        flush=True,
                    )
                    ours += found[way]
                    theirs += plain
    for way, (ours, theirs) in pooled.items():
        print(f"| all | all | | {way} | {len(ours)} differences | {told(differences(ours, theirs))} |")


if __name__ == "__main__":
    main()
