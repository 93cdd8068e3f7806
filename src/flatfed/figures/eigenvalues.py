"""Largest eigenvalue of the Hessian, one bar an algorithm, PyHessian's estimate beside. As in DFedSAM, Figure 5 (a).

Beside it that of the Hessian scaled by the weights (:mod:`flatfed.runs.curvature`), which no paper shows: without it
a bar may be lower because filters are longer.

Specification, beside the keys that every figure has::

    {"kind": "eigenvalues", "panels": [{"title": "With a server", "bars": [{"algorithm": "fedavg", "label": "FedAvg",
        "hessians": ["results/.../seed1/hessian.json", ...]}, ...]}, ...]}

A bar is the mean over the seeds whose file is there; one that is absent, of a run that diverged, or of an earlier
version, which had nothing scaled, is counted.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.figures.bars import FILLED
from flatfed.figures.palette import style
from flatfed.figures.style import WIDTH, caption, legend
from flatfed.runs import curvature, uncertainty
from flatfed.runs.curvature import Hessian

#: Metric -> what stands over its axis.
METRICS = {
    "hessian_top_eigenvalue": "Hessian",
    "hessian_scaled_top_eigenvalue": "Hessian scaled by the weights",
}


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "eigenvalues"; the axes begin at zero.

    :raises DataError: a hessian.json is damaged.
    """
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.9), layout="constrained")
    bars = [bar for panel in spec["panels"] for bar in panel["bars"]]
    read = [[curvature.read(path) for path in bar["hessians"] if Path(path).is_file()] for bar in bars]
    finished = [[hessian for hessian in found if hessian.about.diverged_at is None] for found in read]
    entries: dict[str, Any] = {}
    for axis, (metric, title) in zip(axes, METRICS.items(), strict=True):
        _draw(axis, spec["panels"], finished, metric, entries)
        axis.set_title(title)
    legend(figure, entries, {**{bar["label"]: bar["algorithm"] for bar in bars}, "PyHessian": ""})
    caption(figure, spec, _reading(bars, read, finished))
    return figure


def _draw(
    axis: Axes,
    panels: list[dict[str, Any]],
    finished: list[list[Hessian]],
    metric: str,
    entries: dict[str, Any],
) -> None:
    """Draw a bar of ``metric`` for each of ``finished``, the Hessians of all panels' bars; add to the legend."""
    titles: dict[float, str] = {}
    rows, middle = iter(finished), 0
    for panel in panels:
        titles[middle + (len(panel["bars"]) - 1) / 2] = panel["title"]
        for bar in panel["bars"]:
            found = [hessian for hessian in next(rows) if hessian.has(metric)]
            ours = [hessian.value(metric) for hessian in found]
            theirs = [other for other in (hessian.theirs(metric) for hessian in found) if other is not None]
            height = statistics.fmean(ours) if ours else 0.0
            entries[bar["label"]] = axis.bar(middle, height, FILLED, color=style(bar["algorithm"])[0])
            if theirs:
                other = statistics.fmean(theirs)
                entries["PyHessian"] = axis.plot(middle, other, "D", ms=4, mfc="white", mec="#222222")[0]
            spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
            if spread:
                axis.errorbar(middle, height, spread, color="#222222", elinewidth=0.8, capsize=2)
            if ours:
                text = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
                axis.annotate(f"{height:.3g}", (middle, max([height + spread, *theirs])), (0, 5), **text)
            middle += 1
        middle += 1
    axis.set_xticks(list(titles), titles.values())
    axis.set_xlim(-1, middle - 1)
    axis.grid(visible=False, axis="x")
    axis.set_ylabel("Largest eigenvalue (nats)")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.08)


def _reading(bars: list[dict[str, Any]], read: list[list[Hessian]], finished: list[list[Hessian]]) -> str:
    """Say what bar and diamond are, how well a bar is known, and what is not there."""
    seeds = sorted({len(found) for found in finished if found})
    every = [hessian for found in finished for hessian in found]
    said = "Bar: Hessian of the training loss at the final model, by Lanczos; " + (
        "mean over seeds" if max(seeds, default=0) > 1 else "one seed"
    )
    said += ", ± one sample standard deviation" if max(seeds, default=0) > 1 else ""
    said += f" (n = {' or '.join(map(str, seeds))})." if seeds else "."
    said += (
        " Scaled: of diag(|w|) H diag(|w|). Filters of other lengths can leave a model the same function and change H; "
        "this they leave as it is. Where only the left bar is lower, their lengths may be all that differs."
    )
    old = sum(not hessian.has(metric) for hessian in every for metric in METRICS)
    errors = [] if old else [uncertainty.errors(every, metric) for metric in METRICS]
    if errors and None not in errors:
        shares = " and ".join(f"{100 * error['images']:.2g} %" for error in errors)
        said += f" Standard error of the choice of images, of one seed, at most {shares} (left and right)."
    absent = sum(len(bar["hessians"]) for bar in bars) - sum(map(len, read))
    diverged = sum(map(len, read)) - len(every)
    warned = sum(bool(hessian.warnings) for hessian in every)
    said += f" {absent} Hessians are missing." if absent else ""
    said += f" {diverged} runs diverged and are left out." if diverged else ""
    said += (
        f" {old} Hessians of an earlier version are on the left alone; made again where they are deleted."
        if old
        else ""
    )
    return said + (f" {warned} carry a warning: see hessian.json." if warned else "")
