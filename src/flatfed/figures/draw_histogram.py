"""Training images of all clients per class, for several partitions, as in FedSMOO, Figures 2 and 6."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from flatfed.data import partition as partitions
from flatfed.figures.draw_partition import ticks
from flatfed.figures.style import caption, gridded, legend
from flatfed.plan.at_scale import ShownFigure

#: Colour and dash pattern of the outlines, in order: green and red as in the paper.
OUTLINES = (("#117733", "-"), ("#cc6677", (0, (4, 1.5))), ("#332288", (0, (1.2, 1.2))))


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "histogram".

    :raises DataError: a partition file is absent or damaged.
    """
    figure, axes = gridded(len(spec.panels), 1, 2.3)
    entries: dict[str, Any] = {}
    deviations = []
    for axis, panel in zip(axes, spec.panels, strict=True):
        for (colour, dashes), mark in zip(OUTLINES, panel.marks, strict=False):
            totals = partitions.load(mark.files[0]).class_counts.sum(axis=0)
            edges = np.arange(len(totals) + 1) - 0.5
            outline = axis.stairs(totals, edges, color=colour, linestyle=dashes, linewidth=1.3)
            entries[mark.label] = outline
            where = f"{panel.title}, " if len(axes) > 1 else ""
            deviations.append(f"{where}{mark.label}: {totals.std():.2f}")
        axis.set(title=panel.title, xlabel="Class", ylabel="Training images", xlim=(-0.5, len(totals) - 0.5))
        axis.set_ylim(bottom=0)
        axis.set_xticks(ticks(len(totals)))
    legend(figure, entries)
    caption(figure, spec, f"Standard deviation of the counts over classes: {'; '.join(deviations)}.")
    return figure
