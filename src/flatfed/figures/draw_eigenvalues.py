"""Largest eigenvalue of the Hessian, a bar per algorithm, with PyHessian's estimate, as in DFedSAM, Figure 5 (a).

The second panel has the Hessian scaled by the weights (:mod:`flatfed.runs.curvature`): longer filters alone can lower
the first eigenvalue.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from flatfed.figures.draw_bars import FILLED, bar
from flatfed.figures.style import caption, count_text, gridded, legend, seed_text
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.runs import curvature
from flatfed.runs.curvature import Hessian

#: Metric -> title of its panel.
TITLES = {"hessian_top_eigenvalue": "Hessian", "hessian_scaled_top_eigenvalue": "Hessian scaled by the weights"}

#: The position of a bar, its row, and the Hessians of the runs.
Bar = tuple[int, Mark, list[Hessian]]


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "eigenvalues".

    :raises DataError: a hessian.json is damaged or of another model.
    """
    figure, axes = gridded(2, 2, 2.3)
    bars: list[Bar] = []
    titles: dict[float, str] = {}
    for number, panel in enumerate(spec.panels):
        start = len(bars) + number  # leaves a gap between groups
        titles[start + (len(panel.marks) - 1) / 2] = panel.title
        bars += [(position, mark, _hessians(mark)) for position, mark in enumerate(panel.marks, start)]
    entries: dict[str, Any] = {}
    for axis, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for position, mark, hessians in bars:
            estimated = [hessian for hessian in hessians if hessian.estimates(metric)]
            ours = [hessian.value(metric) for hessian in estimated]
            theirs = [value for hessian in estimated if (value := hessian.pyhessian_value(metric)) is not None]
            look = {"marker": "D", "ls": "none", "ms": 4, "mfc": "white", "mec": "#222222"}
            diamonds = axis.plot(position, statistics.fmean(theirs), **look) if theirs else []
            entries[mark.label] = bar(axis, mark, (position, FILLED), ours, ".3g", 5, theirs)
            entries.update(("PyHessian", diamond) for diamond in diamonds)
        axis.set_xticks(list(titles), titles.values())
        axis.grid(visible=False, axis="x")
        limits = {"xlim": (-1, bars[-1][0] + 1), "ylim": (0, axis.get_ylim()[1] * 1.08)}
        axis.set(title=title, ylabel="Largest eigenvalue (nats)", **limits)
    legend(figure, entries, spec.marks)
    caption(figure, spec, _explanation(bars))
    return figure


def _hessians(mark: Mark) -> list[Hessian]:
    hessians = []
    for path, run in zip(mark.files, mark.runs, strict=True):
        if Path(path).is_file():
            hessians.append(curvature.read(path))
            run.check_analysis(path, hessians[-1].model)
    return hessians


def _explanation(bars: list[Bar]) -> str:
    read = [hessian for _, _, hessians in bars for hessian in hessians]
    finished = [[hessian for hessian in hessians if hessian.about.diverged_at is None] for _, _, hessians in bars]
    complete = [hessian for hessian in read if all(map(hessian.estimates, TITLES))]
    seeds = seed_text(map(len, finished), ", ± one sample standard deviation")
    text = f"Bar: Hessian of the training loss at the final model, by Lanczos; {seeds}."
    text += (
        " Scaled: of diag(|w|) H diag(|w|). Rescaled filters can change H but not the model; they do not change the "
        "scaled Hessian. If only the left bar is lower, the models may differ in filter lengths alone."
    )
    errors = [curvature.largest_errors(complete, metric) for metric in TITLES]
    if None not in errors:
        shares = " and ".join(f"{100 * error.images:.2g} %" for error in errors)
        text += f" Largest standard error of the choice of images, one seed: {shares} (left and right)."
    diverged = len(read) - sum(map(len, finished))
    counts = {
        "Hessians are missing": sum(len(mark.files) for _, mark, _ in bars) - diverged - len(complete),
        "runs diverged and are left out": diverged,
        "Hessians have a warning, see hessian.json": sum(bool(hessian.warnings) for hessian in read),
    }
    return text + count_text(counts)
