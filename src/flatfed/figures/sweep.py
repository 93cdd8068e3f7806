"""A final number against a hyper-parameter: one panel a parameter, one line an algorithm, one mark a value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values on the axis are those of the
runs themselves, so that a preview shows what it ran; they stand at equal distances, since a grid such as 0.998, 0.9995,
0.99995 leaves no room for its numbers on any scale.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.errors import DataError, unknown
from flatfed.figures.final import Final
from flatfed.figures.palette import strokes, style
from flatfed.figures.style import QUANTITIES, WIDTH, caption, columns, legend, sample, widths


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "sweep" (see ``flatfed.figures``).

    :raises DataError: the metric is unknown, or a file of a run is damaged.
    """
    metric, panels = spec["metric"], spec["panels"]
    if metric not in QUANTITIES:
        raise DataError(unknown("metric", metric, QUANTITIES, f"figure {spec['figure']}"))
    label, factor = QUANTITIES[metric]
    across = columns(len(panels))
    down = math.ceil(len(panels) / across)
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        figure, axes = plt.subplots(
            down, across, figsize=(WIDTH, 2.35 * down + 0.6), squeeze=False, layout="constrained"
        )
    every = [one for panel in panels for one in panel["series"] + panel["levels"]]
    looks = strokes((one["algorithm"], style(one["algorithm"])) for one in every)
    final = Final(metric)
    entries: dict[str, Any] = {}
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        panel = panels[place]
        values = sorted({point["x"] for series in panel["series"] for point in series["points"]})
        for series in panel["series"]:
            look = looks[style(series["algorithm"])]
            mark = {"marker": "o", "markersize": 2.4 * look["linewidth"]}
            _line(axis, series, values, {**look, **mark}, final, factor)
            entries[series["label"]] = sample(look, **mark)
        for level in panel["levels"]:
            look = looks[style(level["algorithm"])]
            numbers = final.of(level["runs"], level["rounds"])
            if numbers:
                axis.axhline(factor * numbers[0], **look)
            entries[level["label"]] = sample(look)
        _ticks(axis, values)
        axis.set_title(panel["title"])
        axis.set_xlabel(panel["axis"])
        axis.set_ylabel(label)
    legend(figure, entries, {one["label"]: one["algorithm"] for one in every})
    caption(figure, spec, final.reading("Mark") + " The values stand at equal distances." + widths(looks))
    return figure


def _line(
    axis: Axes, series: dict[str, Any], values: list[float], look: dict[str, Any], final: Final, factor: float
) -> None:
    """Draw a row's final numbers over the places of the parameter's ``values``."""
    found = [(values.index(point["x"]), final.of(point["runs"], point["rounds"])) for point in series["points"]]
    there = [(place, *numbers) for place, numbers in found if numbers]
    places, means = [place for place, _, _ in there], [factor * mean for _, mean, _ in there]
    if any(deviation is not None for *_, deviation in there):
        bars = [factor * (deviation or 0.0) for *_, deviation in there]
        axis.errorbar(places, means, bars, color=look["color"], linestyle="none", elinewidth=0.8, capsize=2)
    axis.plot(places, means, **look)


def _ticks(axis: Axes, values: list[float]) -> None:
    """Put a tick at every value that was run, all as far apart."""
    axis.set_xticks(range(len(values)), [f"{value:.5g}" for value in values])
    axis.set_xlim(-0.25, len(values) - 0.75)
    if len(values) > 6:
        axis.tick_params(axis="x", rotation=45)
