"""Final numbers over a hyper-parameter: a panel per parameter, a line per algorithm, a mark per value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values have equal distances: on any
scale the labels of 0.998, 0.9995, 0.99995 overlap.
"""

from __future__ import annotations

import itertools
import statistics
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.figures.draw_bars import FinalNumbers
from flatfed.figures.palette import strokes, style
from flatfed.figures.style import WHISKER, caption, columns, gridded, legend, legend_line, width_text
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import PARAMETERS


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "sweep".

    :raises DataError: a file of a run is damaged.
    """
    final = FinalNumbers(spec)
    figure, axes = gridded(len(spec.panels), columns(len(spec.panels)), 2.35)
    looks = strokes(((mark.algorithm, style(mark.algorithm)) for mark in spec.marks), spec.highlight)
    entries: dict[str, Any] = {}
    for panel, axis in zip(spec.panels, axes, strict=True):
        values = sorted({point.x for point in panel.marks})
        for algorithm, points in itertools.groupby(panel.marks, lambda mark: mark.algorithm):
            line, look = list(points), looks[style(algorithm)]
            look = {**look, "marker": "o", "markersize": 2.4 * look["linewidth"]}
            _line(axis, [(values.index(point.x), final.numbers(point)) for point in line], look)
            entries[line[0].label] = legend_line(look)
        for level in panel.levels:
            look = looks[style(level.algorithm)]
            if numbers := final.numbers(level):
                axis.axhline(statistics.fmean(numbers), **look)
            entries[level.label] = legend_line(look)
        axis.set_xticks(range(len(values)), [f"{value:.5g}" for value in values])
        axis.set_xlim(-0.25, len(values) - 0.75)
        if len(values) > 6:
            axis.tick_params(axis="x", rotation=45)
        axis.set(title=panel.title, xlabel=PARAMETERS[panel.parameter].axis, ylabel=final.quantity.label)
    legend(figure, entries, spec.marks)
    caption(figure, spec, final.explanation("Mark") + " The values have equal distances." + width_text(looks))
    return figure


def _line(axis: Axes, points: list[tuple[int, list[float]]], look: dict[str, Any]) -> None:
    """Draw the means of ``points``, (position, numbers of the seeds), with whiskers if a point has several seeds."""
    points = [(position, numbers) for position, numbers in points if numbers]
    positions, means = [position for position, _ in points], [statistics.fmean(numbers) for _, numbers in points]
    if any(len(numbers) > 1 for _, numbers in points):
        whiskers = [statistics.stdev(numbers) if len(numbers) > 1 else 0.0 for _, numbers in points]
        axis.errorbar(positions, means, whiskers, linestyle="none", **{**WHISKER, "color": look["color"]})
    axis.plot(positions, means, **look)
