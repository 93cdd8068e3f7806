"""Is one algorithm's minimum flatter than another's? Paired over seeds, from hessian.json files, as a Markdown table.

    PYTHONPATH=src python benchmarks/flatness.py results/preview/analysis/fedsmoo-cifar10/dir0.6-100 fedsam fedsmoo

The folder holds <algorithm>/seed<k>/hessian.json, which the workflow makes:

    snakemake --cores all --config 'seeds=[1,2,3,4,5]' -- \\
        results/preview/analysis/fedsmoo-cifar10/dir0.6-100/{fedavg,fedsam,fedsmoo}/seed{1..5}/hessian.json

Of the top eigenvalue and of the trace, of the Hessian and of the one scaled by the weights (not in converted files):
mean over the seeds, the difference to ``--base`` (fedavg) seed by seed, its mean, and the 95 % interval of that by
Student's t distribution (``scipy.stats.ttest_1samp``). All algorithms of a seed start from one model and
see the same clients, batches and, in the Hessian, images. Below three seeds no interval is given: it would rest on one
or no degree of freedom. Where a run diverged there is nothing to hold against another, and leaving its seed out would
flatter the algorithm, so that the line says which instead.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scipy.stats import ttest_1samp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed.errors import DataError, FlatFedError  # noqa: E402
from flatfed.runs import curvature  # noqa: E402
from flatfed.runs.curvature import Hessian  # noqa: E402

FEWEST = 3  # seeds of an interval
METRICS = {
    "hessian_top_eigenvalue": "top eigenvalue",
    "hessian_trace": "trace",
    "hessian_scaled_top_eigenvalue": "scaled top eigenvalue",
    "hessian_scaled_trace": "scaled trace",
}


def hessians(folder: Path, algorithm: str) -> dict[int, Hessian]:
    """Return seed -> hessian.json of ``algorithm``; DataError where there is none."""
    paths = (folder / algorithm).glob("seed*/hessian.json")
    found = {int(path.parent.name.removeprefix("seed")): curvature.read(path) for path in paths}
    if not found:
        raise DataError(f"{folder / algorithm}: holds no seed<k>/hessian.json")
    return dict(sorted(found.items()))


def compared(folder: Path, base: str, algorithms: list[str]) -> list[str]:
    """Return the lines of the table.

    Raises DataError where two files that are held against each other are of other images or settings, or share no seed.
    """
    lines = [
        f"| | seeds | {base} | algorithm | differences | mean and 95 % interval | not converged |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    first = hessians(folder, base)
    for algorithm in algorithms:
        second = hessians(folder, algorithm)
        seeds = [seed for seed in first if seed in second]
        if not seeds:
            raise DataError(f"{folder}: {base} and {algorithm} have no seed in common")
        for seed in seeds:
            for key in ("images", "images_of", "seed", "precision", "settings"):
                a, b = (getattr(found[seed].about, key) for found in (first, second))
                if a != b:
                    raise DataError(f"{folder}: seed {seed}: {key} is {a} of {base}, but {b} of {algorithm}")
        gone = [
            f"{name}, seed {seed}, in round {found[seed].about.diverged_at}"
            for name, found in ((base, first), (algorithm, second))
            for seed in seeds
            if found[seed].about.diverged_at is not None
        ]
        used = [found[seed] for found in (first, second) for seed in seeds]
        for metric, name in METRICS.items():
            if not all(hessian.covers(metric) for hessian in used):
                continue
            if gone:
                lines.append(f"| {algorithm}, {name} | {len(seeds)} | | | diverged: {'; '.join(gone)} | | |")
                continue
            pairs = [(second[seed].value(metric), first[seed].value(metric)) for seed in seeds]
            theirs, ours = zip(*pairs, strict=True)
            differences = [a - b for a, b in pairs]
            bounds = ", no interval"
            if len(seeds) >= FEWEST:
                bounds = " [{:+.3g}, {:+.3g}]".format(*ttest_1samp(differences, 0).confidence_interval())
            kind = "trace" if metric.endswith("trace") else "eigenvalues"
            short = sum(not getattr(hessian.estimates(metric).converged, kind) for hessian in used)
            cells = (
                f"{algorithm}, {name}",
                f"{len(seeds)}",
                f"{sum(ours) / len(seeds):.4g}",
                f"{sum(theirs) / len(seeds):.4g}",
                ", ".join(f"{a - b:+.3g}" for a, b in pairs),
                f"{sum(differences) / len(seeds):+.3g}{bounds}",
                f"{short} of {2 * len(seeds)}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Parse the arguments, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/<scale>/analysis/<protocol>/<split>")
    parser.add_argument("algorithms", nargs="+", help="held against the base")
    parser.add_argument("--base", default="fedavg")
    options = parser.parse_args()
    try:
        print("\n".join(compared(options.folder, options.base, options.algorithms)))
    except FlatFedError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
