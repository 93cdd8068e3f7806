"""Final numbers side by side: one group of bars a split, one bar an algorithm. As in DFedSAM, Figure 5 (b)."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import seaborn
from matplotlib.figure import Figure

from flatfed.errors import DataError, unknown
from flatfed.figures.final import Final
from flatfed.figures.palette import style
from flatfed.figures.style import QUANTITIES, WIDTH, caption, legend

#: Share of a group's width that its bars take.
FILLED = 0.84


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "bars" (see ``flatfed.figures``); the axis begins at zero.

    :raises DataError: the metric is unknown, or a file of a run is damaged.
    """
    metric, panels = spec["metric"], spec["panels"]
    if metric not in QUANTITIES:
        raise DataError(unknown("metric", metric, QUANTITIES, f"figure {spec['figure']}"))
    label, factor = QUANTITIES[metric]
    with seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}):
        figure, axis = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
    final = Final(metric)
    entries: dict[str, Any] = {}
    for group, panel in enumerate(panels):
        width = FILLED / len(panel["bars"])
        for place, bar in enumerate(panel["bars"]):
            numbers = final.of([[run] for run in bar["runs"]], bar["rounds"])
            colour, _ = style(bar["algorithm"])
            height, deviation = (0.0, None) if numbers is None else (factor * numbers[0], numbers[1])
            left = group - FILLED / 2 + (place + 0.5) * width
            entries[bar["label"]] = axis.bar(left, height, 0.92 * width, color=colour)
            if deviation is not None:
                axis.errorbar(left, height, factor * deviation, color="#222222", elinewidth=0.8, capsize=2)
            if numbers is not None:
                above = factor * (deviation or 0.0)
                axis.annotate(
                    f"{height:.1f}", (left, height + above), (0, 2), textcoords="offset points", ha="center", fontsize=6
                )
    axis.set_xticks(range(len(panels)), [panel["title"] for panel in panels])
    axis.grid(visible=False, axis="x")
    axis.set_ylabel(label)
    axis.set_ylim(0, axis.get_ylim()[1] * 1.06)
    legend(figure, entries, {bar["label"]: bar["algorithm"] for panel in panels for bar in panel["bars"]})
    caption(figure, spec, final.reading("Bar"))
    return figure
