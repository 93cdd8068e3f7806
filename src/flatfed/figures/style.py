"""Common style: sizes, panels, legends. Letters keep their size in points whatever the width of a figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import seaborn
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flatfed.figures.palette import highlighted
from flatfed.plan.at_scale import ShownFigure

#: Resolution of layout and PNG; fewer pixels make letters wider.
DPI = 200

#: matplotlib settings: letters of 7.3 and 8 points in print, fonts embedded as outlines.
STYLE = {
    **seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}),
    **seaborn.plotting_context("paper", font_scale=5 / 6),
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "legend.frameon": False,
    "pdf.fonttype": 42,
}

#: Inches that a panel, one of four or more, the symbol of a legend's entry with its gap, and a letter of 8 points need.
PANEL, SMALL, SYMBOL, LETTER = 2.3, 1.6, 0.5, 0.062

#: Inches of a row of a legend.
ROW = 0.17


def panels(
    spec: ShownFigure,
    titles: Sequence[str],
    across: int = 3,
    height: float = 2.1,
    least: float = SMALL,
    **options: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its panels, with their ``titles``.

    ``across``: the most per row; of four panels two, fewer if they were narrower than :data:`PANEL`, or than ``least``
    if they are four or more. ``height``: the most of a row, inches. ``options``: of ``pyplot.subplots``.
    """
    fit = int(spec.width / (least if len(titles) >= 4 else PANEL))
    across = min(len(titles), across, 2 if len(titles) == 4 else 3, max(1, fit))
    down = math.ceil(len(titles) / across)
    size = spec.width, min(height, 1.1 * spec.width / across) * down + 0.4
    figure, axes = pyplot.subplots(down, across, figsize=size, squeeze=False, layout="constrained", **options)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05)
    for axis in axes.flat[len(titles) :]:
        axis.remove()
    for axis, title in zip(axes.flat, titles, strict=False):
        axis.set_title(textwrap.fill(title, int(spec.width / across / LETTER - 4), break_on_hyphens=False))
    return figure, list(axes.flat[: len(titles)])


def empty(spec: ShownFigure, reason: str) -> Figure:
    """Return a figure with the ``reason`` in place of panels."""
    figure = pyplot.figure(figsize=(spec.width, 1))
    figure.text(0.5, 0.5, textwrap.fill(reason, int(spec.width / LETTER)), ha="center", va="center")
    return figure


def legend(spec: ShownFigure, figure: Figure, entries: Mapping[str, Artist]) -> None:
    """Draw the legend under the panels, in columns that its longest label fits; ``entries``: label -> artist.

    The figure grows by the rows after the first. The label of the highlighted algorithm is bold.
    """
    most = max(1, int(spec.width / (SYMBOL + LETTER * max(map(len, entries)))))
    rows = math.ceil(len(entries) / most)
    columns = math.ceil(len(entries) / rows)  # fills the rows
    figure.set_figheight(figure.get_figheight() + ROW * (rows - 1))
    place = {"loc": "outside lower center", "ncols": columns, "columnspacing": 1.5}
    drawn = figure.legend(entries.values(), entries.keys(), **place)
    for label in (label for label in drawn.get_texts() if label.get_text() in highlighted(spec)):
        label.set_fontweight("bold")


def step(number: int) -> int:
    """Return the step of about a dozen round ticks for ``number`` clients or classes, from 0."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if number / step <= 12)
