"""Compare our runs at FedSMOO's setting with the printed numbers: docs/results.md, three plots and README's results.

Reads the tables of results/published/fedsmoo-cifar10 as `flatfed table --runs` does; rules.md there has the rules.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import pandas as pd
from jinja2 import Template
from matplotlib import pyplot

from flatfed.commands import configuration, make_table
from flatfed.figures.palette import STYLES, WIDEST, WIDTH
from flatfed.plan import numbers
from flatfed.plan.metrics import Reading
from flatfed.plan.number import runs_of
from flatfed.plan.units import UNITS, as_printed, written
from flatfed.runs.paths import without_label
from flatfed.runs.record import RunRecord
from flatfed.runs.store import Store
from flatfed.tables.cells import Cell
from flatfed.tables.compare import agreement
from flatfed.tables.measurement import Measured

STYLE = {"backend": "agg", "axes.spines.top": False, "axes.spines.right": False, "font.size": 8, "axes.titlesize": 9}
pyplot.rcParams |= STYLE | {"axes.grid": True, "grid.color": "#eeeeee", "figure.labelsize": 8}
ROOT = Path(__file__).resolve().parents[1]
PUBLISHED, DOCS = ROOT / "results/published/fedsmoo-cifar10", ROOT / "docs"
COLUMN, OLDER = "path3-200", "path3-100"
#: The last two have the rows that FedLESAM adds.
TABLES = ("fedsmoo2023_T1", "fedsmoo2023_T6", "fedlesam2024_T2", "fedlesam2024_T9")
TARGETS = (68, 74)
PAPERS = ("fedsam2022", "fedsmoo2023", "dfedsam2023", "fedlesam2024")
ROUNDING = 0.087  # norm of bfloat16's rounding of trained weights, docs/performance.md
ROWS = ["fedavg", "fedsmoo", "fedcm", "feddyn", "mofedsam", "scaffold", "fedsam", "fedadam"]
NAMES: dict[str, str] = {}  # algorithm -> label, filled by Results


@dataclass(eq=False)
class Run:
    """A run: its record, its folder, and its test accuracies in percent by round."""

    record: RunRecord
    folder: Path
    accuracy: pd.Series

    def __post_init__(self) -> None:
        """Read the run's ids from its settings."""
        config = self.record.config
        self.split, self.algorithm, self.seed = config.split, config.algorithm, config.seed
        self.finished, self.rounds, self.seconds = self.record.ended, self.record.rounds_done, self.record.seconds
        self.precision = "TF32" if self.record.tf32 else self.record.precision
        self.device = self.record.host["gpu"] or "CPU"
        self.name = ", ".join(filter(None, (NAMES[without_label(self.algorithm)], self.changes)))

    @property
    def changes(self) -> str:
        """Return the differences from the baseline: a variant's label, another batch size than 50."""
        batch = self.record.config.batch_size
        return ", ".join([*self.algorithm.split("~")[1:], *([f"batches of {batch}"] if batch != 50 else [])])

    @property
    def loses_perturbation(self) -> bool:
        """Return whether bfloat16 rounds the weights by more than the radius of the perturbation."""
        return self.precision == "bfloat16" and self.radius is not None and self.radius < ROUNDING

    @property
    def radius(self) -> float | None:
        """Return the radius of the perturbation."""
        return self.record.config.update.params.get("rho")

    def final(self, window: int) -> float | None:
        """Return the mean of the last accuracies, None if unfinished."""
        return Reading(window, history={"accuracy": list(self.accuracy)}).final("accuracy") if self.finished else None

    def rounds_to(self, target: float, smoothing: int) -> int | None:
        """Return the rounds to ``target`` of a centred mean."""
        history = {"accuracy": list(self.accuracy), "round": list(self.accuracy.index)}
        return Reading(1, smoothing, target, "accuracy", history).at_crossing("round")

    def trailing(self, target: float) -> int | None:
        """Return the rounds to ``target`` of the mean of the last 10 rounds."""
        mean = self.accuracy.rolling(10).mean()
        return int(mean[mean >= target].index[0]) if (mean >= target).any() else None


class Results:
    """Our cells, and the ``runs`` behind them and around them.

    ``cells``: (split, algorithm, target in percent or None) -> cell; ``shown``: the runs of the cells.
    """

    def __init__(self, folder: Path = PUBLISHED):
        """Read the tables and the runs of ``folder``; ValueError if two runs have the same metrics."""
        self.cells: dict[tuple[str, str, int | None], Cell] = {}
        for name in TABLES:
            options = argparse.Namespace(runs=[folder], so_far=True, table=name, config=None, scale=None)
            table, _, damaged = make_table.of_runs(options)
            if damaged:
                sys.exit("\n".join(damaged))
            for column, row, cell in table.labelled_cells:
                NAMES.setdefault(row.algorithm, row.label)
                if cell.printed_unit in ("percent", "rounds"):
                    target = None if cell.number.target is None else round(100 * cell.number.target)
                    self.cells.setdefault((column.split, row.algorithm, target), cell)
        self.experiment = configuration.load(None)
        catalog = self.experiment.catalog  # has the labels of rows that no such table has
        for name in catalog.algorithms:
            NAMES.setdefault(name, catalog.label(name))
        shown = {run.split("/runs/")[1] for cell in self.cells.values() for run in cell.runs}
        self.runs, files = [], {}
        for path, record in Store([folder], alone=True, so_far=True).records.items():
            if (other := files.setdefault(record.files[record.metrics], path)) != path:
                raise ValueError(f"{path} and {other} have the same metrics: remove the copy")
            accuracy = 100 * pd.read_csv(Path(path, record.metrics), index_col="round").test_accuracy
            self.runs.append(Run(record, Path(path), accuracy))
        order = [*ROWS, *NAMES]
        self.runs.sort(key=lambda run: (order.index(without_label(run.algorithm)), run.changes, run.seed))
        self.shown = [run for run in self.runs if run.record.name in shown]
        for (split, row, target), cell in self.cells.items():
            if split == COLUMN and cell.n < len(runs := self.judged(row)):
                self.cells[split, row, target] = of_seeds(cell, runs, target)

    def of(self, split: str, algorithm: str | None = None) -> list[Run]:
        """Return the shown runs of a split."""
        return [run for run in self.shown if run.split == split and algorithm in (None, run.algorithm)]

    def judged(self, row: str) -> list[Run]:
        """Return the finished runs of a row of the column, the first of each seed, in either precision."""
        runs = [run for run in self.runs if (run.split, run.algorithm, run.finished) == (COLUMN, row, True)]
        first = {run.seed: run for run in sorted(runs, key=lambda run: run.record.finished, reverse=True)}
        return [first[seed] for seed in sorted(first)]

    def precision(self, row: str) -> str:
        """Return the precisions of a row of the column."""
        return " and ".join(dict.fromkeys(run.precision for run in self.judged(row) or self.of(COLUMN, row)))

    def drift(self, row: str) -> float:
        """Return the mean difference of neighbouring means of 50 rounds, in points, over the last 400 rounds."""
        means = self.judged(row)[0].accuracy[-450:].to_numpy().reshape(-1, 50).mean(axis=1)
        return float(abs(means[1:] - means[:-1]).mean())

    @property
    def measured_tables(self) -> list[str]:
        """The tables of the papers that print results, not settings."""
        tables = self.experiment.tables.items()
        return [name for name, table in tables if name[:-3] in PAPERS]

    @property
    def finished_tables(self) -> list[str]:
        """The measured tables all of whose runs are published and finished."""
        experiment = replace(self.experiment, store=Store([PUBLISHED], alone=True))
        tables = {name: runs_of(numbers.numbers(experiment, "paper", name)) for name in self.measured_tables}
        return [name for name, runs in tables.items() if runs and not any(run.absent for run in runs.values())]

    def verdicts(self, *targets: int | None) -> list[str]:
        """Return the verdicts on the column's cells."""
        return [agreement(self.cells[COLUMN, name, target]) for name in ROWS for target in targets]

    @property
    def radii(self) -> list[Run]:
        """FedSMOO's runs of the column that differ in radius or precision only: the largest radius first."""
        runs = [run for run in self.runs if (run.split, run.seed) == (COLUMN, 1)]
        runs = [run for run in runs if run.algorithm == "fedsmoo" or run.algorithm.startswith("fedsmoo~rho")]
        return sorted(runs, key=lambda run: (-run.radius, run.precision != "bfloat16"))

    @property
    def trials(self) -> list[tuple]:
        """Return (run, baseline, common rounds, two means of 10 rounds, mean difference) of variants and precisions."""
        trials = []
        for run in self.runs:
            ids = run.split, without_label(run.algorithm), run.seed
            bases = [base for base in self.runs if (base.split, base.algorithm, base.seed) == ids and base is not run]
            if bases and run not in self.shown:
                base = min(bases, key=lambda base: (base.precision != run.precision, base not in self.shown))
                common = run.accuracy.index.intersection(base.accuracy.index)
                ours, theirs = run.accuracy[common], base.accuracy[common]
                trials.append((run, base, len(common), theirs[-10:].mean(), ours[-10:].mean(), (ours - theirs).mean()))
        return trials


def of_seeds(cell: Cell, runs: list[Run], target: int | None) -> Cell:
    """Return ``cell`` with the values of ``runs``, one per seed, and their mean."""
    if target is None:
        values = [run.final(cell.number.window) / 100 for run in runs]
    else:
        values = [run.rounds_to(target, cell.number.smoothing) for run in runs]
    value = None if None in values else fmean(values)
    numbers = (replace(cell.number, seed=run.seed, runs=()) for run in runs)
    measured = [Measured(number, value) for number, value in zip(numbers, values, strict=True)]
    status = "not_reached" if value is None else "ok"
    return replace(cell, measured=measured, value=value, status=status, n=len(runs))


def text(cell: Cell) -> str:
    """Return our number of a cell: both seeds' and their mean, or how far the run has come."""
    if cell.status != "ok":
        return "not reached" if cell.status == "not_reached" else f"> {cell.rounds}"
    number = [written(value, None, cell.printed_unit, cell.decimals) for value in (cell.value, *cell.values)]
    return number[0] if cell.n == 1 else f"{number[0]} ({', '.join(number[1:])})"


def printed(cell: Cell) -> str:
    """Return the printed number of a cell."""
    return as_printed(cell.paper[0], None, cell.printed_unit, cell.decimals) or "not reached"


def dumbbells(results: Results, out: Path, page_digest: str) -> None:
    """Draw printed (hollow) and our (filled) accuracies and rounds to targets of the column."""
    size, end, mark = (4, 2 + 0.75 * len(ROWS)), 830, {"color": "#a3195b", "markersize": 8, "clip_on": False}
    figure, panels = pyplot.subplots(3, 1, figsize=size, sharey=True, layout="constrained")
    for panel, target in zip(panels, (None, *TARGETS), strict=True):
        numbers = []
        for height, row in enumerate(reversed(ROWS)):
            cell = results.cells[COLUMN, row, target]
            factor = UNITS[cell.printed_unit].factor
            ours, theirs = (value and factor * value for value in (cell.value, cell.paper[0]))
            open_ = cell.status not in ("ok", "not_reached")
            at = ours or (cell.rounds if open_ else end)
            numbers += filter(None, (ours, theirs))
            if ours or target:
                grey = {"color": "#aaaaaa"} if open_ else {}
                line = [] if grey else [theirs or end, at]
                panel.plot(line, [height] * len(line), "-", color="#cccccc", zorder=0)
                panel.plot(at, height, "o" if ours else ">", **mark | grey)
            panel.plot(theirs or end, height, "o" if theirs else ">", **mark | {"markersize": 13}, fillstyle="none")
        names = [NAMES[name] for name in reversed(ROWS)]
        panel.set(yticks=range(len(ROWS)), yticklabels=names, ylim=(-0.6, len(ROWS) - 0.4))
        panel.set(xlim=(0, end) if target else (min(numbers) - 1, max(numbers) + 1))
        panel.locator_params(axis="x", nbins=5)
        panel.tick_params(labelsize=9.5)
        panel.set_title(f"Rounds to {target} %" if target else "Test accuracy, %", fontsize=10)
    figure.supxlabel("hollow: printed, filled: ours\narrow: not reached, grey: unfinished", fontsize=10)
    figure.savefig(out, dpi=200, metadata={"flatfed": page_digest})


def curves(results: Results, out: Path, page_digest: str) -> None:
    """Draw one panel per row and split: raw accuracies, their mean of 10 rounds, FedAvg in grey."""
    shown = [run for split in (COLUMN, OLDER) for run in results.of(split) if run.seed == 1]
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


def column(results: Results, out: Path, page_digest: str) -> None:
    """Draw the finished rows of the column in one panel: centred means of 21 rounds of the first seeds."""
    figure, panel = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    for row in ROWS:
        run = next(run for run in results.of(COLUMN, row) if run.seed == 1)
        (colour, dashes), width = STYLES[row], WIDEST if row == "fedsmoo" else WIDTH
        mean = run.accuracy.rolling(21, center=True).mean()
        panel.plot(mean, color=colour, linestyle=dashes, label=run.name, linewidth=width)
    panel.set(xlim=(0, 800), ylim=(20, 82), xlabel="round (mean of 21 rounds, one seed)", ylabel="test accuracy, %")
    panel.set_title("CIFAR-10, three classes per client, 5 % of 200 clients")
    panel.legend(ncols=4, loc="lower right")
    figure.savefig(out, dpi=200, metadata={"flatfed": page_digest})


def page(results: Results, name: str = "results") -> str:
    """Return the rendered template ``name``: results or readme."""
    template = Template((ROOT / f"studies/{name}.md.jinja").read_text(encoding="utf-8"), trim_blocks=True)
    return template.render(
        results=results, column=COLUMN, older=OLDER, rows=ROWS, names=NAMES, targets=TARGETS, numbers=[None, *TARGETS],
        root=ROOT, text=text, printed=printed, agreement=agreement,
    )  # fmt: skip


if __name__ == "__main__":
    results = Results()
    content = page(results)
    digest = hashlib.sha256(content.encode()).hexdigest()
    dumbbells(results, DOCS / "results.png", digest)
    curves(results, DOCS / "results-curves.png", digest)
    column(results, DOCS / "finished-column.png", digest)
    (DOCS / "results.md").write_text(content, encoding="utf-8")
    head, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- results -->\n")
    block = page(results, "readme") + "\n" + rest[rest.index("<!-- end of results -->") :]
    (ROOT / "README.md").write_text(head + "<!-- results -->\n" + block, encoding="utf-8")
