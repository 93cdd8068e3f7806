"""Compare our runs at FedSMOO's setting with the printed numbers: docs/results.md, its two plots and README's results.

Reads config/reference and results/published/fedsmoo-cifar10, whose rules.md has the rules of the comparison.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Template
from matplotlib import pyplot

from flatfed.commands import run_folders
from flatfed.runs.paths import without_label

STYLE = {"backend": "agg", "axes.spines.top": False, "axes.spines.right": False, "font.size": 8, "axes.titlesize": 9}
pyplot.rcParams |= STYLE | {"axes.grid": True, "grid.color": "#eeeeee", "figure.labelsize": 8}
ROOT = Path(__file__).resolve().parents[1]
PUBLISHED, DOCS = ROOT / "results/published/fedsmoo-cifar10", ROOT / "docs"
COLUMN, OLDER = "path3-200", "path3-100"
TARGETS, OMITTED = (68, 74), {("fedadam", 68)}  # erratum B1
ROUNDING = 0.087  # norm of bfloat16's rounding of trained weights, docs/performance.md
POINTS, SHARES = {"agrees": 1.0, "near": 2.0}, {"agrees": 0.15, "near": 0.30}
NAMES = {
    "fedavg": "FedAvg", "fedsmoo": "FedSMOO", "fedcm": "FedCM", "feddyn": "FedDyn", "mofedsam": "MoFedSAM",
    "scaffold": "SCAFFOLD", "fedsam": "FedSAM", "fedadam": "FedAdam", "fedgamma": "FedGAMMA",
    "fedlesam": "FedLESAM", "fedlesam_d": "FedLESAM-D", "fedlesam_s": "FedLESAM-S",
}  # fmt: skip
ROWS, ROUNDS = list(NAMES)[:8], 800
PARTITIONS = {"dir": "dirichlet", "path": "pathological"}


@dataclass(eq=False)
class Run:
    """A run: test accuracies in percent by round, and its record ``about``."""

    accuracy: pd.Series
    about: dict
    folder: Path
    finished: bool

    def __post_init__(self) -> None:
        """Read the run's ids from its description."""
        described = self.about["description"]
        self.split, self.algorithm, self.seed = (described[key] for key in ("split", "algorithm", "seed"))
        self.precision = "TF32" if self.about.get("tf32") else self.about["precision"]
        self.rounds = int(self.accuracy.index[-1])
        self.name = NAMES[without_label(self.algorithm)] + (f", {self.changes}" if self.changes else "")
        self.printed = printed(self.split, self.algorithm)

    @property
    def device(self) -> str:
        return self.about["host"]["gpu"] or "CPU"

    @property
    def changes(self) -> str:
        """Return the differences from the baseline: a variant's label, another batch size than 50."""
        batch = self.about["description"]["batch_size"]
        return ", ".join([*self.algorithm.split("~")[1:], *([f"batches of {batch}"] if batch != 50 else [])])

    @property
    def loses_perturbation(self) -> bool:
        """Return whether bfloat16 rounds the weights by more than the radius of the perturbation."""
        radius = self.about["description"]["update"]["params"].get("rho", ROUNDING)
        return self.precision == "bfloat16" and radius < ROUNDING

    @property
    def finals(self) -> list[float | None]:
        """Return the last accuracy and the means of the last 10 and 50 rounds, None if unfinished."""
        return [self.accuracy.iloc[-n:].mean() if self.finished else None for n in (1, 10, 50)]

    def rounds_to(self, target: float) -> list[int | None]:
        """Return the rounds to ``target``: centred mean of 21 (primary), first crossing, trailing mean of 10."""
        means = self.accuracy.rolling(21, center=True).mean(), self.accuracy, self.accuracy.rolling(10).mean()
        return [int(mean[mean >= target].index[0]) if (mean >= target).any() else None for mean in means]

    @property
    def verdict(self) -> str:
        """Return the verdict on the mean accuracy of 50 rounds, "" if unfinished."""
        return verdict(self.finals[2], self.printed)

    def target_verdict(self, target: int) -> str:
        """Return the verdict on the primary rounds to ``target``, "" while open."""
        ours, theirs = self.rounds_to(target)[0], self.printed[target]
        if (self.algorithm, target) in OMITTED:
            return "omitted (B1)"
        if theirs is None:
            return "differs" if ours else "agrees" if self.finished else ""
        if ours is None:
            return "differs" if self.finished or self.rounds - 10 > (1 + SHARES["near"]) * theirs else ""
        return within(abs(ours - theirs) / theirs, SHARES)


@dataclass
class Row:
    """A row of the column and its ``runs``, one per seed."""

    runs: list[Run]

    @property
    def finished(self) -> bool:
        return any(run.finished for run in self.runs)

    @property
    def ours(self) -> float | None:
        """Return the mean over the finished seeds of the mean accuracy of 50 rounds."""
        finals = [run.finals[2] for run in self.runs if run.finished]
        return sum(finals) / len(finals) if finals else None

    @property
    def verdict(self) -> str:
        return verdict(self.ours, self.runs[0].printed)


def verdict(ours: float | None, printed: dict) -> str:
    """Return the verdict on an accuracy, "" for None."""
    return "" if ours is None else within(abs(ours - printed["accuracy"]), POINTS)


def within(difference: float, bounds: dict[str, float]) -> str:
    """Return the first verdict whose bound holds, else "differs"."""
    return next((name for name, bound in bounds.items() if difference <= bound), "differs")


def printed(split: str, algorithm: str) -> dict:
    """Return the printed accuracy and rounds to targets of FedSMOO (Tables 1, 6), else FedLESAM (Tables 2, 9)."""
    kind, parameter, clients = re.fullmatch(r"(dir|path)([\d.]+)-(\d+)", split).groups()
    for paper, accuracies, rounds in (("fedsmoo2023", "T1", "T6"), ("fedlesam2024", "T2", "T9")):
        tables = []
        for table, metric in ((accuracies, "test_accuracy"), (rounds, "rounds_to_target")):
            rows = pd.read_csv(ROOT / f"config/reference/{paper}_{table}.csv")
            rows = rows[(rows.dataset == "cifar10") & (rows.partition == PARTITIONS[kind])]
            rows = rows[(rows.partition_param == float(parameter)) & (rows.clients == int(clients))]
            rows = rows[(rows.metric == metric) & (rows.unit != "x")]
            tables.append(rows[rows.algorithm == without_label(algorithm)])
        if len(tables[0]):
            reached = tables[1].dropna(subset="value").set_index("target").value
            rounds_to = {target: int(reached[target]) if target in reached else None for target in TARGETS}
            return {"accuracy": tables[0].value.iloc[0]} | rounds_to
    raise KeyError(f"no printed number of {algorithm} on {split}")


def read(folder: Path = PUBLISHED) -> list[Run]:
    """Return the runs under ``folder`` by row and seed; ValueError if two have the same metrics."""
    runs, folders = [], {}
    for record in sorted(folder.rglob("run*.json")):
        files = run_folders.read_checking_metrics(record).files  # refuses edited runs
        suffix = record.name.removeprefix("run").removesuffix(".json")
        other = folders.setdefault(files[f"metrics{suffix}.csv"], record.parent)
        if other != record.parent:
            raise ValueError(f"{record.parent} and {other} have the same metrics: remove the copy")
        metrics = pd.read_csv(record.with_name(f"metrics{suffix}.csv"), index_col="round")
        finished = not suffix and len(metrics) == ROUNDS
        runs.append(Run(metrics.test_accuracy * 100, json.loads(record.read_text()), record.parent, finished))
    return sorted(runs, key=lambda run: (list(NAMES).index(without_label(run.algorithm)), run.changes, run.seed))


def column_runs(runs: list[Run]) -> list[Run]:
    """Return the runs of the column's rows: for each seed the first finished one (rules.md), else the longest."""
    chosen: dict[tuple[str, int], Run] = {}
    candidates = [run for run in runs if run.split == COLUMN and run.algorithm in ROWS and not run.changes]
    for run in sorted(candidates, key=lambda run: (not run.finished, run.about.get("finished") or "", -run.rounds)):
        chosen.setdefault((run.algorithm, run.seed), run)
    return [run for run in runs if run in chosen.values()]


def trials(runs: list[Run]) -> list[tuple]:
    """Return (run, baseline, common rounds, two means of 10 rounds, mean difference) of each variant or precision."""
    results, column = [], column_runs(runs)
    for run in runs:
        second_precision = run not in column if run.split == COLUMN else run.precision == "float32"
        same = column if run.split == COLUMN else [other for other in runs if other.split == run.split]
        ids = without_label(run.algorithm), run.seed
        same = [r for r in same if (r.algorithm, r.seed) == ids and r is not run and not r.changes]
        base = next(iter(same), None)
        if base is None or not (run.changes or second_precision):
            continue
        common = run.accuracy.index.intersection(base.accuracy.index)
        ours, theirs = run.accuracy[common], base.accuracy[common]
        results.append((run, base, len(common), theirs[-10:].mean(), ours[-10:].mean(), (ours - theirs).mean()))
    return results


def dumbbells(runs: list[Run], out: Path, page_digest: str) -> None:
    """Draw printed (hollow) and our (filled) accuracies and rounds to targets of each row with a run."""
    shown = runs
    names = [name for name in reversed(ROWS) if name in {run.algorithm for run in shown}]
    size, end = (4, 2 + 0.75 * len(names)), 830
    accuracies = [value for run in shown for value in (run.printed["accuracy"], run.finals[2]) if value]
    figure, panels = pyplot.subplots(3, 1, figsize=size, sharey=True, layout="constrained")
    for panel, key in zip(panels, ("accuracy", *TARGETS), strict=True):
        mark = {"color": "#a3195b", "markersize": 8, "clip_on": False}
        for run in shown:
            theirs, ours = run.printed[key], run.finals[2] if key == "accuracy" else run.rounds_to(key)[0]
            height, at = names.index(run.algorithm), ours or (end if run.finished else run.rounds)
            if ours or key != "accuracy":
                grey = {} if ours or run.finished else {"color": "#aaaaaa"}
                line = [] if grey else [theirs or end, at]
                panel.plot(line, [height] * len(line), "-", color="#cccccc", zorder=0)
                panel.plot(at, height, "o" if ours else ">", **mark | grey)
            panel.plot(theirs or end, height, "o" if theirs else ">", **mark | {"markersize": 13}, fillstyle="none")
        panel.set(yticks=range(len(names)), yticklabels=[NAMES[name] for name in names], ylim=(-0.6, len(names) - 0.4))
        panel.set(xlim=(min(accuracies) - 1, max(accuracies) + 1) if key == "accuracy" else (0, end))
        panel.locator_params(axis="x", nbins=5)
        panel.tick_params(labelsize=9.5)
        panel.set_title("Test accuracy, %" if key == "accuracy" else f"Rounds to {key} %", fontsize=10)
    figure.supxlabel("hollow: printed, filled: ours\narrow: not reached, grey: unfinished", fontsize=10)
    figure.savefig(out, dpi=200, metadata={"flatfed": page_digest})


def curves(runs: list[Run], out: Path, page_digest: str) -> None:
    """Draw one panel per row and split: raw accuracies, their mean of 10 rounds, FedAvg in grey."""
    shown = [run for run in runs if run.seed == 1 and not run.changes]
    shown = [run for run in shown if (run.split, run.precision) != (OLDER, "float32")]
    shown.sort(key=lambda run: run.split, reverse=True)
    rows = -(-len(shown) // 4)
    figure, panels = pyplot.subplots(rows, 4, figsize=(10, 1.9 * rows), sharex=True, sharey=True, layout="constrained")
    for panel in panels.flat[len(shown) :]:
        panel.set_axis_off()
    for panel, run in zip(panels.flat, shown, strict=False):
        baselines = (other for other in shown if (other.split, other.algorithm) == (run.split, "fedavg"))
        base = next(baselines, None)
        if base is not None and base is not run:
            panel.plot(base.accuracy.rolling(10).mean(), color="#aaaaaa", linewidth=1)
        panel.plot(run.accuracy, color="#a3195b", linewidth=0.4, alpha=0.5)
        panel.plot(run.accuracy.rolling(10).mean(), color="#a3195b", linewidth=1.3)
        panel.set_title(f"{run.name}, {run.split.split('-')[1]} clients")
        panel.set(xlim=(0, 800), ylim=(10, 85))
    figure.supxlabel("round (line: mean of 10 rounds; thin: each round; grey: FedAvg)")
    figure.supylabel("test accuracy, %")
    figure.savefig(out, dpi=150, metadata={"flatfed": page_digest})


def page(runs: list[Run], name: str = "results") -> str:
    """Return the rendered template ``name``: results or readme."""
    column = column_runs(runs)
    table = [Row([run for run in column if run.algorithm == name]) for name in ROWS]
    table = [row for row in table if row.runs]
    template = Template((ROOT / f"studies/{name}.md.jinja").read_text(encoding="utf-8"), trim_blocks=True)
    return template.render(
        column=column, table=table, runs=runs, rows=ROWS, names=NAMES, trials=trials(runs), targets=TARGETS, root=ROOT,
        rounding=ROUNDING,
        accuracies=[row.verdict for row in table],
        rounds=[run.target_verdict(target) for run in column for target in TARGETS],
    )  # fmt: skip


if __name__ == "__main__":
    runs = read()
    text = page(runs)
    digest = hashlib.sha256(text.encode()).hexdigest()
    dumbbells(column_runs(runs), DOCS / "results.png", digest)
    curves(runs, DOCS / "results-curves.png", digest)
    (DOCS / "results.md").write_text(text, encoding="utf-8")
    head, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- results -->\n")
    block = page(runs, "readme") + "\n" + rest[rest.index("<!-- end of results -->") :]
    (ROOT / "README.md").write_text(head + "<!-- results -->\n" + block, encoding="utf-8")
