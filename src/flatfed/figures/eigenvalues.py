"""Largest eigenvalue of the Hessian, one bar an algorithm, PyHessian's estimate beside. As in DFedSAM, Figure 5 (a).

Beside it that of the Hessian scaled by the weights (:mod:`flatfed.runs.curvature`), which no paper shows: without it
a bar may be lower because filters are longer.

A bar is the mean over the seeds whose file has its number; one that is absent or lacks a number, or is of a run that
diverged, is counted.
"""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.experiment.panels import FigureSpec, Mark
from flatfed.figures.bars import FILLED
from flatfed.figures.palette import style
from flatfed.figures.style import WHISKER, caption, counted, gridded, legend, seeds
from flatfed.runs import curvature, uncertainty
from flatfed.runs.curvature import Hessian

#: Metric -> what stands over its axis.
TITLES = {
    "hessian_top_eigenvalue": "Hessian",
    "hessian_scaled_top_eigenvalue": "Hessian scaled by the weights",
}


#: A bar at a place on the axis, with the Hessians of its runs that did not diverge.
Placed = tuple[int, Mark, list[Hessian]]


def draw(spec: FigureSpec) -> Figure:
    """Return the figure of a specification of kind "eigenvalues"; the axes begin at zero.

    :raises DataError: a hessian.json is damaged.
    """
    figure, axes = gridded(2, 2, 2.3)
    bars: list[Placed] = []
    titles: dict[float, str] = {}
    diverged = 0
    for number, panel in enumerate(spec.panels):
        first = len(bars) + number  # a place is left free between two groups
        titles[first + (len(panel.marks) - 1) / 2] = panel.title
        for place, bar in enumerate(panel.marks, first):
            hessians = _hessians(bar)
            finished = [hessian for hessian in hessians if hessian.about.diverged_at is None]
            bars.append((place, bar, finished))
            diverged += len(hessians) - len(finished)
    entries: dict[str, Any] = {}
    for axis, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for bar in bars:
            _draw(axis, bar, metric, entries)
        axis.set_xticks(list(titles), titles.values())
        axis.grid(visible=False, axis="x")
        limits = {"xlim": (-1, bars[-1][0] + 1), "ylim": (0, axis.get_ylim()[1] * 1.08)}
        axis.set(title=title, ylabel="Largest eigenvalue (nats)", **limits)
    legend(figure, entries, [bar for _, bar, _ in bars])
    caption(figure, spec, _explanation(bars, diverged))
    return figure


def _hessians(bar: Mark) -> list[Hessian]:
    """Return the Hessians of a bar that have been made; DataError for one of another model than its run has."""
    found = []
    for path, run in itertools.zip_longest(bar.files, bar.runs):
        if Path(path).is_file():
            found.append(curvature.read(path))
            if run:
                run.check_analysis(path, found[-1].model)
    return found


def _draw(axis: Axes, placed: Placed, metric: str, entries: dict[str, Any]) -> None:
    """Draw a bar of ``metric``, with PyHessian's estimate where there is one, and enter both into the legend."""
    place, bar, hessians = placed
    found = [hessian for hessian in hessians if hessian.covers(metric)]
    ours = [hessian.value(metric) for hessian in found]
    theirs = [other for hessian in found if (other := hessian.pyhessian_value(metric)) is not None]
    height = statistics.fmean(ours) if ours else 0.0
    entries[bar.label] = axis.bar(place, height, FILLED, color=style(bar.algorithm)[0])
    if theirs:
        other = statistics.fmean(theirs)
        entries["PyHessian"] = axis.plot(place, other, "D", ms=4, mfc="white", mec="#222222")[0]
    spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
    if spread:
        axis.errorbar(place, height, spread, **WHISKER)
    if ours:
        text = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
        axis.annotate(f"{height:.3g}", (place, max([height + spread, *theirs])), (0, 5), **text)


def _explanation(bars: list[Placed], diverged: int) -> str:
    """Say what bar and diamond are, how well a bar is known, and what is not there: how many runs ``diverged``."""
    finished = [hessian for _, _, hessians in bars for hessian in hessians]
    known = seeds((len(hessians) for _, _, hessians in bars), ", ± one sample standard deviation")
    said = f"Bar: Hessian of the training loss at the final model, by Lanczos; {known}."
    said += (
        " Scaled: of diag(|w|) H diag(|w|). Filters of other lengths can leave a model the same function and change H; "
        "this they leave as it is. Where only the left bar is lower, their lengths may be all that differs."
    )
    complete = [hessian for hessian in finished if all(map(hessian.covers, TITLES))]
    errors = [uncertainty.largest_errors(complete, metric) for metric in TITLES]
    if None not in errors:
        shares = " and ".join(f"{100 * error.images:.2g} %" for error in errors)
        said += f" Standard error of the choice of images, of one seed, at most {shares} (left and right)."
    absent = sum(len(bar.files) for _, bar, _ in bars) - diverged - len(complete)
    warned = sum(bool(hessian.warnings) for hessian in finished)
    absences = {"Hessians are missing": absent, "runs diverged and are left out": diverged}
    return said + counted({**absences, "carry a warning: see hessian.json": warned})
