"""Final numbers: a group of bars per split, a bar per algorithm, as in DFedSAM, Figure 5 (b)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from flatfed.figures import captions, frames, palette, style
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import KINDS, Panel
from flatfed.plan.metrics import evaluations

#: Inches of the width of a figure that each bar needs for its number.
NUMBER = 0.28

#: Inches of the numbers and label of a vertical axis.
BESIDE = 0.7


def draw(spec: ShownFigure) -> tuple[Figure, list[str]]:
    """Return a figure of kind "bars" and its explanation.

    :raises DataError: a file of a run is damaged.
    :raises NoData: no run has a final number.
    """
    frame, panels, missing = frames.finals(spec)
    figure, (axis,) = style.panels(spec, [""])
    entries = bars(axis, spec, frame, x="panel", order=panels)
    label_groups(axis, range(len(panels)), panels.values())
    label_bars(axis, ".1f")
    axis.set(xlabel="", ylabel=KINDS[spec.kind].quantities[spec.panels[0].metric].label)
    style.legend(spec, figure, entries)
    return figure, [*explanation("Bar", spec, frame), *missing]


def bars(axis: Axes, spec: ShownFigure, frame: pd.DataFrame, **options: Any) -> dict[str, Patch]:
    """Draw the means of ``value`` as bars with whiskers; return label -> its patch in the legend.

    The bars of the highlighted algorithm have an outline. ``options``: of ``seaborn.barplot``.
    """
    colours = {mark.label: palette.style(mark.algorithm)[0] for mark in spec.marks}
    look = {"hue": "label", "hue_order": list(colours), "palette": colours, "saturation": 1, "legend": False}
    whiskers = {"errorbar": "sd", "err_kws": {"color": "#222222", "linewidth": 0.8}, "capsize": 0.15}
    seaborn.barplot(frame, y="value", ax=axis, **look, **whiskers, **options)
    entries = {label: Patch(color=colour) for label, colour in colours.items()}
    for label, container in zip(colours, axis.containers, strict=False):
        if label in palette.highlighted(spec):
            for patch in (*container, entries[label]):
                patch.set(edgecolor="black", linewidth=1.2)
    axis.grid(visible=False, axis="x")
    return entries


def label_groups(axis: Axes, middles: Sequence[float], panels: Iterable[Panel]) -> None:
    """Print the titles of ``panels`` under the ``middles`` of their groups, wrapped to the distance of two groups."""
    left, right = axis.get_xlim()
    inches = axis.figure.get_figwidth() / axis.get_gridspec().ncols - BESIDE
    letters = max(1, int(inches * min([right - left, *np.diff(middles)]) / (right - left) / style.LETTER))
    unbroken = {"break_long_words": False, "break_on_hyphens": False}
    axis.set_xticks(middles, [textwrap.fill(panel.title, letters, **unbroken) for panel in panels])


def label_bars(axis: Axes, digits: str, points: float = 2) -> None:
    """Print the heights of the bars ``points`` above them and their whiskers, in the format ``digits``."""
    bars = [patch for patch in axis.patches if np.isfinite(patch.get_height())]
    upright = len(bars) * NUMBER > axis.figure.get_figwidth()
    text = {"textcoords": "offset points", "ha": "center", "fontsize": 6, "rotation": 90 if upright else 0}
    for bar in bars:
        left, right = bar.get_x(), bar.get_x() + bar.get_width()
        lines = (line.get_ydata() for line in axis.lines if left < np.nanmean(line.get_xdata()) < right)
        top = max([bar.get_height(), *(height for heights in lines for height in heights if np.isfinite(height))])
        axis.annotate(f"{bar.get_height():{digits}}", ((left + right) / 2, top), (0, points), **text)
    axis.set_ylim(0, axis.get_ylim()[1] * (1.15 if upright else 1.1))


def explanation(mark: str, spec: ShownFigure, frame: pd.DataFrame) -> Iterator[str]:
    """Yield the sentence on a ``mark`` of final numbers."""
    numbers = frame.groupby(["panel", "label", "x"])["seed"].nunique()
    windows = sorted({number.window for part in spec.marks for number in part.numbers})
    final = f"{mark}: {' or '.join(map(evaluations, windows))}, {captions.seeds(numbers)}"
    yield final + captions.deviation("whisker", numbers)
