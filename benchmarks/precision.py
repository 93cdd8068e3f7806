"""What ``precision: bfloat16`` does to the final accuracy, at preview scale: paired differences to float32, per seed.

    python benchmarks/precision.py --seeds 5 [--splits dir0.6-100 path3-100] [--device cpu] [fedavg fedsam fedsmoo]

Trains FedSMOO's CIFAR-10 protocol on the embedded digits in both precisions, on the same clients, batches and initial
weights, and prints a Markdown table: the mean accuracy of the final round in float32, the differences of all seeds in
points, their mean and its 95 % interval (Student's).
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import experiment  # noqa: E402
from flatfed.data import partition, sources  # noqa: E402
from flatfed.engine.train import train  # noqa: E402
from flatfed.tables.compare import paired  # noqa: E402

PROTOCOL = "fedsmoo-cifar10"


def final(description: dict, data: Path, dealt: Path, out: Path, device: str) -> float:
    """Train the run; return the test accuracy of its last round, in percent."""
    train(description, data, dealt, out, device=device)
    with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
        return 100 * float(list(csv.DictReader(file))[-1]["test_accuracy"])


def accuracies(folder: Path, split: str, algorithm: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return precision -> final accuracy of every seed."""
    known = experiment.load(ROOT)
    data = folder / "data"
    found: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    for seed in range(1, options.seeds + 1):
        run = known.run("preview", PROTOCOL, split, algorithm, seed)
        if not data.exists():
            sources.fetch(known.dataset_spec(run.dataset), data)
        dealt = folder / split / f"seed{seed}.npz"
        if not dealt.exists():
            partition.make(known.partition_spec("preview", PROTOCOL, split, seed), data, dealt)
        out = folder / split / algorithm / str(seed)
        for precision, values in found.items():
            description = {**run.description, "precision": precision}
            values.append(final(description, data, dealt, out / precision, options.device))
    return found


def main() -> None:
    """Parse the arguments, train, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "fedsam", "fedsmoo"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", nargs="+", default=["dir0.6-100", "path3-100"])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    options = parser.parse_args()
    print("| split | algorithm | float32 (%) | bfloat16 minus float32 (points) | mean and 95 % interval |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for split in options.splits:
            for algorithm in options.algorithms:
                found = accuracies(Path(folder), split, algorithm, options)
                plain, rounded = found["float32"], found["bfloat16"]
                each = ", ".join(f"{a - b:+.2f}" for a, b in zip(rounded, plain, strict=True))
                gap = paired(rounded, plain)
                print(
                    f"| {split} | {algorithm} | {statistics.fmean(plain):.2f} | {each} | "
                    f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}] |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
