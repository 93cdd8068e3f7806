"""Largest eigenvalue of the Hessian, one bar an algorithm, PyHessian's estimate beside. As in DFedSAM, Figure 5 (a).

Specification, beside the keys that every figure has::

    {"kind": "eigenvalues", "panels": [{"title": "With a server", "bars": [{"algorithm": "fedavg", "label": "FedAvg",
        "hessians": ["results/.../seed1/hessian.json", ...]}, ...]}, ...]}

A bar is the mean over the seeds whose file is there; one that is absent, or of a run that diverged, is counted.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn
from matplotlib.figure import Figure

from flatfed.analysis import records
from flatfed.tables.figures.bars import FILLED
from flatfed.tables.figures.palette import style
from flatfed.tables.figures.paper import WIDTH, caption, legend

METRIC = "hessian_top_eigenvalue"


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "eigenvalues"; the axis begins at zero.

    :raises DataError: a hessian.json is damaged.
    """
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        figure, axis = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
    entries: dict[str, Any] = {}
    seeds, absent, diverged, warned = set(), 0, 0, 0
    titles: dict[float, str] = {}
    first = 0
    for panel in spec["panels"]:
        titles[first + (len(panel["bars"]) - 1) / 2] = panel["title"]
        for middle, bar in enumerate(panel["bars"], first):
            found = [records.read(path) for path in bar["hessians"] if Path(path).is_file()]
            absent += len(bar["hessians"]) - len(found)
            finished = [record for record in found if record.get("diverged_at") is None]
            diverged += len(found) - len(finished)
            found = finished
            warned += sum(bool(record["warnings"]) for record in found)
            numbers = [records.numbers(record)[METRIC] for record in found]
            ours, theirs = [own for own, _ in numbers], [other for _, other in numbers if other is not None]
            height = statistics.fmean(ours) if ours else 0.0
            entries[bar["label"]] = axis.bar(middle, height, FILLED, color=style(bar["algorithm"])[0])
            if theirs:
                other = statistics.fmean(theirs)
                entries["PyHessian"] = axis.plot(middle, other, "D", ms=4, mfc="white", mec="#222222")[0]
            if ours:
                seeds.add(len(ours))
                text = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
                axis.annotate(f"{height:.3g}", (middle, max([height, *theirs])), (0, 5), **text)
            if len(ours) > 1:
                axis.errorbar(middle, height, statistics.stdev(ours), color="#222222", elinewidth=0.8, capsize=2)
        first += len(panel["bars"]) + 1
    axis.set_xticks(list(titles), titles.values())
    axis.set_xlim(-1, first - 1)
    axis.grid(visible=False, axis="x")
    axis.set_ylabel("Largest eigenvalue (nats)")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.08)
    algorithms = {bar["label"]: bar["algorithm"] for panel in spec["panels"] for bar in panel["bars"]}
    legend(figure, entries, {**algorithms, "PyHessian": ""})
    caption(figure, spec, _reading(seeds, absent, diverged, warned))
    return figure


def _reading(seeds: set[int], absent: int, diverged: int, warned: int) -> str:
    """Say what bar and diamond are, and what is not there."""
    most = max(seeds, default=0)
    said = "Bar: Hessian of the training loss at the final model, by Lanczos; " + (
        "mean over seeds" if most > 1 else "one seed"
    )
    said += ", ± one sample standard deviation" if most > 1 else ""
    numbers = " or ".join(str(number) for number in sorted(seeds))
    said += f" (n = {numbers})." if numbers else "."
    said += f" {absent} Hessians are missing." if absent else ""
    said += f" {diverged} runs diverged and are left out." if diverged else ""
    return said + (f" {warned} carry a warning: see hessian.json." if warned else "")
