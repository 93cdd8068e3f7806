"""Final numbers over a hyper-parameter: a panel per parameter, a line per algorithm, a mark per value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values have equal distances: on any
scale the labels of 0.998, 0.9995, 0.99995 overlap.
"""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.experiment.figure_specs import FigureSpec, Mark
from flatfed.figures.final import FinalNumbers
from flatfed.figures.palette import strokes, style
from flatfed.figures.style import WHISKER, caption, columns, gridded, legend, legend_line, quantity, width_text


def draw(spec: FigureSpec) -> Figure:
    """Return a figure of kind "sweep".

    :raises DataError: the metric is unknown, or a file of a run is damaged.
    """
    shown, final = quantity(spec, spec.metric), FinalNumbers(spec.metric)
    figure, axes = gridded(len(spec.panels), columns(len(spec.panels)), 2.35)
    looks = strokes((mark.algorithm, style(mark.algorithm)) for mark in spec.marks)
    entries: dict[str, Any] = {}
    for panel, axis in zip(spec.panels, axes, strict=True):
        values = sorted({point.x for point in panel.marks})
        for algorithm, points in itertools.groupby(panel.marks, lambda mark: mark.algorithm):
            line, look = list(points), looks[style(algorithm)]
            mark = {"marker": "o", "markersize": 2.4 * look["linewidth"]}
            _line(axis, line, values, {**look, **mark}, final, shown.factor)
            entries[line[0].label] = legend_line(look, **mark)
        for level in panel.levels:
            look = looks[style(level.algorithm)]
            if numbers := final.summary(level):
                axis.axhline(shown.factor * numbers[0], **look)
            entries[level.label] = legend_line(look)
        axis.set_xticks(range(len(values)), [f"{value:.5g}" for value in values])
        axis.set_xlim(-0.25, len(values) - 0.75)
        if len(values) > 6:
            axis.tick_params(axis="x", rotation=45)
        axis.set(title=panel.title, xlabel=panel.axis, ylabel=shown.label)
    legend(figure, entries, spec.marks)
    caption(figure, spec, final.explanation("Mark") + " The values have equal distances." + width_text(looks))
    return figure


def _line(
    axis: Axes, line: list[Mark], values: list[float], look: dict[str, Any], final: FinalNumbers, factor: float
) -> None:
    points = [(values.index(point.x), final.summary(point)) for point in line]
    positions = [position for position, numbers in points if numbers]
    means = [factor * numbers[0] for _, numbers in points if numbers]
    deviations = [numbers[1] for _, numbers in points if numbers]
    if any(deviation is not None for deviation in deviations):
        whiskers = [factor * (deviation or 0.0) for deviation in deviations]
        axis.errorbar(positions, means, whiskers, linestyle="none", **{**WHISKER, "color": look["color"]})
    axis.plot(positions, means, **look)
