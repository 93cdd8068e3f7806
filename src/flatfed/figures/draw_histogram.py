"""Training images of all clients per class, for several partitions, as in FedSMOO, Figures 2 and 6."""

from __future__ import annotations

import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flatfed.data import partition as partitions
from flatfed.figures import style
from flatfed.plan.at_scale import ShownFigure

#: Colour and dash pattern of the outlines, in order: green and red as in the paper.
OUTLINES = (("#117733", "-"), ("#cc6677", (0, (4, 1.5))), ("#332288", (0, (1.2, 1.2))))


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "histogram" and its explanation.

    :raises DataError: a partition file is absent or damaged.
    """
    figure, axes = style.panels(spec, [panel.title for panel in spec.panels], across=1)
    entries, deviations = {}, []
    for axis, panel in zip(axes, spec.panels, strict=True):
        for (colour, dashes), mark in zip(OUTLINES, panel.marks, strict=False):
            images = partitions.load(mark.files[0]).class_counts.sum(axis=0)
            frame = pd.DataFrame({"class": range(len(images)), "images": images})
            look = {"element": "step", "fill": False, "color": colour, "linestyle": dashes, "linewidth": 1.3}
            seaborn.histplot(frame, x="class", weights="images", discrete=True, ax=axis, **look)
            entries[mark.label] = Line2D([], [], color=colour, linestyle=dashes, linewidth=1.3)
            deviations.append(f"{f'{panel.title}, ' if len(axes) > 1 else ''}{mark.label}: {images.std():.2f}")
        axis.set(xlabel="Class", ylabel="Training images", xlim=(-0.5, len(images) - 0.5))
        axis.set_ylim(0, 1.05 * axis.dataLim.ymax)
        axis.set_xticks(range(0, len(images), style.step(len(images))))
    style.legend(spec, figure, entries)
    return figure, [f"Standard deviation of the counts over classes: {'; '.join(deviations)}"]
