"""Flatness of algorithms' minima compared with FedAvg's, as a Markdown table.

    PYTHONPATH=src python benchmarks/flatness.py results/preview/analysis/fedsmoo-cifar10/dir0.6-100 fedsam fedsmoo

Reads <algorithm>/seed<k>/hessian.json in the folder. A line has the means over seeds, the differences to FedAvg, their
mean and, from three seeds up, its 95 % interval (Student's t). If a run diverged, the line names it: dropping its seed
would flatter the algorithm.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scipy.stats import ttest_1samp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed.errors import DataError, FlatFedError
from flatfed.runs import curvature
from flatfed.runs.curvature import Hessian

BASE = "fedavg"
MINIMUM = 3  # seeds of an interval
METRICS = {
    "hessian_top_eigenvalue": "top eigenvalue",
    "hessian_trace": "trace",
    "hessian_scaled_top_eigenvalue": "scaled top eigenvalue",
    "hessian_scaled_trace": "scaled trace",
}


def hessians(folder: Path, algorithm: str) -> dict[int, Hessian]:
    """Return seed -> hessian.json of ``algorithm``."""
    paths = (folder / algorithm).glob("seed*/hessian.json")
    by_seed = {int(path.parent.name.removeprefix("seed")): curvature.read(path) for path in paths}
    if not by_seed:
        raise DataError(f"{folder / algorithm}: holds no seed<k>/hessian.json")
    return dict(sorted(by_seed.items()))


def compared(folder: Path, algorithms: list[str]) -> list[str]:
    """Return the table; DataError if files have different images or settings, or share no seed."""
    lines = [
        f"| | seeds | {BASE} | algorithm | differences | mean and 95 % interval | not converged |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    base = hessians(folder, BASE)
    for algorithm in algorithms:
        other = hessians(folder, algorithm)
        seeds = [seed for seed in base if seed in other]
        if not seeds:
            raise DataError(f"{folder}: {BASE} and {algorithm} have no seed in common")
        for seed in seeds:
            for key in ("images", "images_of", "seed", "precision", "settings"):
                a, b = (getattr(by_seed[seed].about, key) for by_seed in (base, other))
                if a != b:
                    raise DataError(f"{folder}: seed {seed}: {key} is {a} for {BASE}, but {b} for {algorithm}")
        diverged = [
            f"{name}, seed {seed}, in round {by_seed[seed].about.diverged_at}"
            for name, by_seed in ((BASE, base), (algorithm, other))
            for seed in seeds
            if by_seed[seed].about.diverged_at is not None
        ]
        compared_files = [by_seed[seed] for by_seed in (base, other) for seed in seeds]
        for metric, name in METRICS.items():
            if not all(hessian.covers(metric) for hessian in compared_files):
                continue
            if diverged:
                lines.append(f"| {algorithm}, {name} | {len(seeds)} | | | diverged: {'; '.join(diverged)} | | |")
                continue
            pairs = [(other[seed].value(metric), base[seed].value(metric)) for seed in seeds]
            other_values, base_values = zip(*pairs, strict=True)
            differences = [a - b for a, b in pairs]
            bounds = ", no interval"
            if len(seeds) >= MINIMUM:
                bounds = " [{:+.3g}, {:+.3g}]".format(*ttest_1samp(differences, 0).confidence_interval())
            kind = "trace" if metric.endswith("trace") else "eigenvalues"
            unconverged = sum(not getattr(hessian.estimates(metric).converged, kind) for hessian in compared_files)
            cells = (
                f"{algorithm}, {name}",
                f"{len(seeds)}",
                f"{sum(base_values) / len(seeds):.4g}",
                f"{sum(other_values) / len(seeds):.4g}",
                ", ".join(f"{difference:+.3g}" for difference in differences),
                f"{sum(differences) / len(seeds):+.3g}{bounds}",
                f"{unconverged} of {2 * len(seeds)}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/<scale>/analysis/<protocol>/<split>")
    parser.add_argument("algorithms", nargs="+", help="compared with fedavg")
    options = parser.parse_args()
    try:
        print("\n".join(compared(options.folder, options.algorithms)))
    except FlatFedError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
