"""Final numbers over a hyper-parameter: a panel per parameter, a line per algorithm, a mark per value.

As in FedSAM, Figures 3, 5 and 6, FedSMOO, Figure 4, and FedLESAM, Figure 4. The values have equal distances: on any
scale the labels of 0.998, 0.9995, 0.99995 overlap.
"""

from __future__ import annotations

import seaborn
from matplotlib.figure import Figure

from flatfed.figures import frames, palette, style
from flatfed.figures.draw_bars import explanation
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "sweep" and its explanation.

    :raises DataError: a file of a run is damaged.
    :raises NoData: no run has a final number.
    """
    frame, panels, missing = frames.finals(spec)
    figure, axes = style.panels(spec, [panel.title for panel in panels.values()], least=style.PANEL)
    entries = {}
    for (index, panel), axis in zip(panels.items(), axes, strict=True):
        look = palette.lines(panel.marks, palette.highlighted(spec))
        entries |= palette.entries(look)
        values = sorted({mark.x for mark in panel.marks if mark.line})
        levels = {mark.label for mark in panel.marks if not mark.line}
        of_panel = frame[frame["panel"] == index]
        points = of_panel[~of_panel["label"].isin(levels)]
        points = points.assign(position=points["x"].map(values.index))
        whiskers = {"errorbar": "sd", "err_style": "bars", "err_kws": {"elinewidth": 0.8, "capsize": 2}}
        if len(points):
            seaborn.lineplot(points, x="position", y="value", marker="o", markersize=4, ax=axis, **whiskers, **look)
        for label, level in of_panel[of_panel["label"].isin(levels)].groupby("label")["value"]:
            axis.axhline(level.mean(), **palette.stroke(look, label))
        axis.set_xticks(range(len(values)), [f"{value:.5g}" for value in values])
        axis.set_xlim(-0.25, len(values) - 0.75)
        if len(values) > 6:
            axis.tick_params(axis="x", rotation=45)
        axis.set(xlabel=panel.axis, ylabel=KINDS[spec.kind].quantities[panel.metric].label)
    style.legend(spec, figure, entries)
    return figure, [*explanation("Mark", spec, frame), "The values have equal distances", *missing]
