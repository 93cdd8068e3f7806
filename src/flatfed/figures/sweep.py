"""A final number against a hyper-parameter: one panel a parameter, one line an algorithm, one mark a value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values on the axis are those of the
runs themselves, so that a preview shows what it ran; they stand at equal distances, since a grid such as 0.998, 0.9995,
0.99995 leaves no room for its numbers on any scale.
"""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.experiment.panels import FigureSpec, Mark
from flatfed.figures.final import FinalNumbers
from flatfed.figures.palette import strokes, style
from flatfed.figures.style import WHISKER, caption, columns, gridded, legend, quantity, sample, widths


def draw(spec: FigureSpec) -> Figure:
    """Return the figure of a specification of kind "sweep".

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
            entries[line[0].label] = sample(look, **mark)
        for level in panel.levels:
            look = looks[style(level.algorithm)]
            if numbers := final.summary(level):
                axis.axhline(shown.factor * numbers[0], **look)
            entries[level.label] = sample(look)
        # A tick at every value that was run, all as far apart.
        axis.set_xticks(range(len(values)), [f"{value:.5g}" for value in values])
        axis.set_xlim(-0.25, len(values) - 0.75)
        if len(values) > 6:
            axis.tick_params(axis="x", rotation=45)
        axis.set(title=panel.title, xlabel=panel.axis, ylabel=shown.label)
    legend(figure, entries, spec.marks)
    caption(figure, spec, final.explanation("Mark") + " The values stand at equal distances." + widths(looks))
    return figure


def _line(
    axis: Axes, line: list[Mark], values: list[float], look: dict[str, Any], final: FinalNumbers, factor: float
) -> None:
    """Draw a row's final numbers, as far as they are there, over the places of the parameter's ``values``."""
    points = [(values.index(point.x), final.summary(point)) for point in line]
    places = [place for place, numbers in points if numbers]
    means = [factor * numbers[0] for _, numbers in points if numbers]
    deviations = [numbers[1] for _, numbers in points if numbers]
    if any(deviation is not None for deviation in deviations):
        whiskers = [factor * (deviation or 0.0) for deviation in deviations]
        axis.errorbar(places, means, whiskers, linestyle="none", **{**WHISKER, "color": look["color"]})
    axis.plot(places, means, **look)
