"""A final number against a hyper-parameter: one panel a parameter, one line an algorithm, one mark a value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values on the axis are those of the
runs themselves, so that a preview shows what it ran.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from flatfed.errors import DataError, unknown
from flatfed.tables.figures.final import Final
from flatfed.tables.figures.palette import style
from flatfed.tables.figures.paper import QUANTITIES, WIDTH, caption, columns, legend


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "sweep" (see ``flatfed.tables.figures``).

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
            down, across, figsize=(WIDTH, 2.25 * down + 0.6), squeeze=False, layout="constrained"
        )
    final = Final(metric)
    entries: dict[str, Any] = {}
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        panel = panels[place]
        if panel["log"]:
            axis.set_xscale("log")
        for series in panel["series"]:
            entries[series["label"]] = _line(axis, series, final, factor)
        for level in panel["levels"]:
            entries[level["label"]] = _level(axis, level, final, factor)
        _ticks(axis, sorted({point["x"] for series in panel["series"] for point in series["points"]}))
        axis.set_title(panel["title"])
        axis.set_xlabel(panel["axis"])
        axis.set_ylabel(label)
    legend(
        figure,
        entries,
        {one["label"]: one["algorithm"] for panel in panels for one in panel["series"] + panel["levels"]},
    )
    caption(figure, spec, final.reading("Mark"))
    return figure


def _line(axis: Axes, series: dict[str, Any], final: Final, factor: float) -> Any:
    """Draw a row's final numbers over the parameter; return the line for the legend."""
    colour, dashes = style(series["algorithm"])
    found = [(point["x"], final.of(point["runs"], point["rounds"])) for point in series["points"]]
    there = [(x, *numbers) for x, numbers in found if numbers]
    places, means = [x for x, _, _ in there], [factor * mean for _, mean, _ in there]
    if any(deviation is not None for *_, deviation in there):
        bars = [factor * (deviation or 0.0) for *_, deviation in there]
        axis.errorbar(places, means, bars, color=colour, linestyle="none", elinewidth=0.8, capsize=2)
    return axis.plot(places, means, color=colour, linestyle=dashes, linewidth=1.4, marker="o", markersize=3.5)[0]


def _level(axis: Axes, level: dict[str, Any], final: Final, factor: float) -> Any:
    """Draw a row that does not have the parameter as a level line; return it for the legend."""
    colour, dashes = style(level["algorithm"])
    numbers = final.of(level["runs"], level["rounds"])
    if numbers is None:
        return axis.plot([], [], color=colour, linestyle=dashes)[0]
    return axis.axhline(factor * numbers[0], color=colour, linestyle=dashes, linewidth=1.2)


def _ticks(axis: Axes, values: list[float]) -> None:
    """Put a tick at every value that was run."""
    axis.xaxis.set_major_locator(FixedLocator(values))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.5g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    if len(values) > 6:
        axis.tick_params(axis="x", rotation=45)
