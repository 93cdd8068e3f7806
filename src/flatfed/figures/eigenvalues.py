"""Largest eigenvalue of the Hessian, a bar per algorithm, with PyHessian's estimate, as in DFedSAM, Figure 5 (a).

The second panel has the Hessian scaled by the weights (:mod:`flatfed.runs.curvature`): longer filters alone can lower
the first eigenvalue.
"""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.experiment.figure_specs import FigureSpec, Mark
from flatfed.figures.bars import FILLED
from flatfed.figures.palette import style
from flatfed.figures.style import WHISKER, annotate, caption, count_text, gridded, legend, seed_text
from flatfed.runs import curvature, uncertainty
from flatfed.runs.curvature import Hessian

#: Metric -> title of its panel.
TITLES = {"hessian_top_eigenvalue": "Hessian", "hessian_scaled_top_eigenvalue": "Hessian scaled by the weights"}


#: The position of a bar, its row, and the Hessians of the runs that did not diverge.
Bar = tuple[int, Mark, list[Hessian]]


def draw(spec: FigureSpec) -> Figure:
    """Return a figure of kind "eigenvalues".

    :raises DataError: a hessian.json is damaged or of another model.
    """
    figure, axes = gridded(2, 2, 2.3)
    bars: list[Bar] = []
    titles: dict[float, str] = {}
    diverged = 0
    for number, panel in enumerate(spec.panels):
        start = len(bars) + number  # leaves a gap between groups
        titles[start + (len(panel.marks) - 1) / 2] = panel.title
        for position, mark in enumerate(panel.marks, start):
            hessians = _hessians(mark)
            finished = [hessian for hessian in hessians if hessian.about.diverged_at is None]
            bars.append((position, mark, finished))
            diverged += len(hessians) - len(finished)
    entries: dict[str, Any] = {}
    for axis, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for bar in bars:
            _draw(axis, bar, metric, entries)
        axis.set_xticks(list(titles), titles.values())
        axis.grid(visible=False, axis="x")
        limits = {"xlim": (-1, bars[-1][0] + 1), "ylim": (0, axis.get_ylim()[1] * 1.08)}
        axis.set(title=title, ylabel="Largest eigenvalue (nats)", **limits)
    legend(figure, entries, [mark for _, mark, _ in bars])
    caption(figure, spec, _explanation(bars, diverged))
    return figure


def _hessians(mark: Mark) -> list[Hessian]:
    hessians = []
    for path, run in itertools.zip_longest(mark.files, mark.runs):
        if Path(path).is_file():
            hessians.append(curvature.read(path))
            if run:
                run.check_analysis(path, hessians[-1].model)
    return hessians


def _draw(axis: Axes, bar: Bar, metric: str, entries: dict[str, Any]) -> None:
    """Draw a bar of ``metric`` and PyHessian's estimate, and add them to the legend's ``entries``."""
    position, mark, hessians = bar
    hessians = [hessian for hessian in hessians if hessian.covers(metric)]
    ours = [hessian.value(metric) for hessian in hessians]
    theirs = [value for hessian in hessians if (value := hessian.pyhessian_value(metric)) is not None]
    height = statistics.fmean(ours) if ours else 0.0
    entries[mark.label] = axis.bar(position, height, FILLED, color=style(mark.algorithm)[0])
    if theirs:
        entries["PyHessian"] = axis.plot(position, statistics.fmean(theirs), "D", ms=4, mfc="white", mec="#222222")[0]
    spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
    if spread:
        axis.errorbar(position, height, spread, **WHISKER)
    if ours:
        annotate(axis, f"{height:.3g}", (position, max([height + spread, *theirs])), 5)


def _explanation(bars: list[Bar], diverged: int) -> str:
    finished = [hessian for _, _, hessians in bars for hessian in hessians]
    seeds = seed_text((len(hessians) for _, _, hessians in bars), ", ± one sample standard deviation")
    text = f"Bar: Hessian of the training loss at the final model, by Lanczos; {seeds}."
    text += (
        " Scaled: of diag(|w|) H diag(|w|). Rescaled filters can change H but not the model; they do not change the "
        "scaled Hessian. If only the left bar is lower, the models may differ in filter lengths alone."
    )
    complete = [hessian for hessian in finished if all(map(hessian.covers, TITLES))]
    errors = [uncertainty.largest_errors(complete, metric) for metric in TITLES]
    if None not in errors:
        shares = " and ".join(f"{100 * error.images:.2g} %" for error in errors)
        text += f" Largest standard error of the choice of images, one seed: {shares} (left and right)."
    absent = sum(len(mark.files) for _, mark, _ in bars) - diverged - len(complete)
    warned = sum(bool(hessian.warnings) for hessian in finished)
    counts = {"Hessians are missing": absent, "runs diverged and are left out": diverged}
    return text + count_text({**counts, "Hessians have a warning, see hessian.json": warned})
