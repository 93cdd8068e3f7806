"""The loss on lines between the models of two runs, in files of ``flatfed surface --line-to``."""

from __future__ import annotations

import numpy as np
import seaborn
from matplotlib.figure import Figure

from flatfed.experiment.panels import FigureSpec
from flatfed.figures.sheets import NOT_MADE, diverged, images, lacking, landscape
from flatfed.figures.style import caption, quantity, subplots


def draw(spec: FigureSpec) -> Figure:
    """Return the figure of a specification of kind "line": from one run's model to another's, and a little beyond.

    :raises DataError: the metric is unknown, or a file is damaged or no line.
    """
    metric = spec.metric or "loss"
    shown = quantity(spec, metric)
    figure, axes = subplots(len(spec.panels), min(3, len(spec.panels)), 2.3, 0.5, sharey=True)
    absent, abouts = [], []
    for panel, axis in zip(spec.panels, axes, strict=True):
        reasons = []
        for entry, colour in zip(panel.marks, seaborn.color_palette("colorblind", len(panel.marks)), strict=True):
            found = landscape(entry, "line")
            if why := NOT_MADE if found is None else diverged(found.about):
                reasons.append(why)
                continue
            values = shown.factor * getattr(found, metric)
            values = np.where(np.isfinite(values), values, np.nan)
            axis.plot(found.x, values, color=colour, linewidth=1.4, label=entry.label)
            abouts.append(found.about)
        for end in (0, 1):
            axis.axvline(end, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)))
        axis.set_title(panel.title)
        axis.set_xlabel("Share of the second model")
        if len(reasons) < len(panel.marks):
            axis.legend(frameon=False)
        else:
            words = "\n".join(dict.fromkeys(reasons))
            axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", color="#777777")
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel(shown.label)
        absent += reasons
    caption(figure, spec, " ".join(["Dashed: the two models.", images(abouts), *lacking("line", absent)]))
    return figure
