"""The loss on lines between the models of two runs. Specification, beside the keys that every figure has::

    {"kind": "line", "metric": "loss" | "accuracy",          # absent: loss
     "panels": [{"title": "From FedAvg", "lines": [{"label": "to FedSMOO", "line": "results/.../line.npz"}, ...]}]}

``line`` is a file of ``flatfed surface --line-to``.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.figure import Figure

from flatfed.figures.sheets import NOT_MADE, diverged, images, landscape, quantity
from flatfed.figures.style import WIDTH, caption


def draw(spec: dict[str, Any]) -> Figure:
    """Return the figure of a specification of kind "line": from one run's model to another's, and a little beyond.

    :raises DataError: the metric is unknown, or a file is damaged or no line.
    """
    label, factor = quantity(spec)
    across = min(3, len(spec["panels"]))
    down = math.ceil(len(spec["panels"]) / across)
    figure, axes = plt.subplots(
        *(down, across), figsize=(WIDTH, 2.3 * down + 0.5), squeeze=False, sharey=True, layout="constrained"
    )
    absent, abouts = [], []
    for axis in axes.flat[len(spec["panels"]) :]:
        axis.set_visible(False)
    for panel, axis in zip(spec["panels"], axes.flat, strict=False):
        for entry, colour in zip(panel["lines"], seaborn.color_palette("colorblind", len(panel["lines"])), strict=True):
            found = landscape(entry["line"], "line")
            why = NOT_MADE if found is None else diverged(found.about, 1)
            if why:
                absent.append(why)
                continue
            values = factor * getattr(found, spec.get("metric", "loss"))
            values = np.where(np.isfinite(values), values, np.nan)
            axis.plot(found.x, values, color=colour, linewidth=1.4, label=entry["label"])
            abouts.append(found.about)
        for end in (0, 1):
            axis.axvline(end, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)))
        axis.set_title(panel["title"])
        axis.set_xlabel("Share of the second model")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False)
        else:
            words = "\n".join(dict.fromkeys(absent[-len(panel["lines"]) :]))
            axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", color="#777777")
    for axis in axes[:, 0]:
        axis.set_ylabel(label)
    said = f"Dashed: the two models. {images(abouts)}"
    missing, gone = absent.count(NOT_MADE), dict.fromkeys(why for why in absent if why != NOT_MADE)
    said += f" Without a line: {', '.join(gone)}." if gone else ""
    caption(figure, spec, said + (f" Missing lines: {missing}." if missing else ""))
    return figure
