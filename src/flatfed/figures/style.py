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

#: matplotlib settings: type of 7 to 9 points in print, fonts embedded as outlines.
STYLE = {
    **seaborn.axes_style("whitegrid", {"grid.color": "#e6e6e6", "axes.edgecolor": "#444444"}),
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.7,
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,
}

#: Inches that a panel, the symbol of a legend's entry with its gap, and a letter of 8 points need.
PANEL, SYMBOL, LETTER = 2.3, 0.5, 0.07


def panels(
    spec: ShownFigure,
    titles: Sequence[str],
    across: int = 3,
    height: float = 2.1,
    layout: str = "constrained",
    **options: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its panels, with their ``titles``.

    ``across``: the most per row; of two and four panels two, fewer if they were narrower than :data:`PANEL`.
    ``height``: of a row, inches. ``options``: of ``pyplot.subplots``.
    """
    across = min(len(titles), across, 2 if len(titles) == 4 else 3, max(1, int(spec.width / PANEL)))
    down = math.ceil(len(titles) / across)
    size = spec.width, height * down + 0.4
    figure, axes = pyplot.subplots(down, across, figsize=size, squeeze=False, layout=layout, **options)
    if layout == "constrained":
        figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05)
    for axis in axes.flat[len(titles) :]:
        axis.remove()
    for axis, title in zip(axes.flat, titles, strict=False):
        axis.set_title(textwrap.fill(title, int(spec.width / across / LETTER - 5), break_on_hyphens=False))
    return figure, list(axes.flat[: len(titles)])


def legend(spec: ShownFigure, figure: Figure, entries: Mapping[str, Artist]) -> None:
    """Draw the legend under the panels, in columns that its longest label fits; ``entries``: label -> artist.

    The label of the highlighted algorithm is bold.
    """
    if not entries:
        return
    most = max(1, int(spec.width / (SYMBOL + LETTER * max(map(len, entries)))))
    columns = math.ceil(len(entries) / math.ceil(len(entries) / most))  # fills the rows
    place = {"loc": "outside lower center", "ncols": columns, "columnspacing": 1.5}
    drawn = figure.legend(entries.values(), entries.keys(), **place)
    for label in (label for label in drawn.get_texts() if label.get_text() in highlighted(spec)):
        label.set_fontweight("bold")


def step(number: int) -> int:
    """Return the step of about a dozen round ticks for ``number`` clients or classes, from 0."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if number / step <= 12)
