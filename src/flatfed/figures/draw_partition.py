"""A partition as a heat map: training images per client and class, as in FedSMOO and FedLESAM, Figure 5."""

from __future__ import annotations

import statistics

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, PowerNorm
from matplotlib.figure import Figure

from flatfed.data import partition as partitions
from flatfed.figures.style import caption, subplots
from flatfed.plan.at_scale import ShownFigure

#: The most clients of a panel of half the page width.
FEW_CLIENTS = 40

#: More panels are always two across: in one column they are taller than a page.
MANY_PANELS = 4

#: Light to dark; the lightest is distinct from white.
COLOURS = ListedColormap(seaborn.color_palette("mako_r", 256).as_hex()[20:225])


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "partition"; all panels share one colour scale, zero is white.

    :raises DataError: a partition file is absent or damaged.
    """
    counts = [partitions.load(panel.marks[0].files[0]).class_counts for panel in spec.panels]
    most = max(int(count.max()) for count in counts)
    narrow = max(len(count) for count in counts) <= FEW_CLIENTS
    across = 2 if len(counts) > 1 and (narrow or len(counts) > MANY_PANELS) else 1
    rows = [counts[first : first + across] for first in range(0, len(counts), across)]
    # Inches, enough for ten labelled classes.
    heights = [max(min(4.2, 0.9 + 0.13 * count.shape[1]) for count in row) for row in rows]
    figure, axes = subplots(len(counts), across, statistics.fmean(heights), 1.0, height_ratios=heights)
    for panel, axis, count in zip(spec.panels, axes, counts, strict=True):
        image = _panel(axis, count, most)
        axis.set_title(panel.title)
    bar = figure.colorbar(image, ax=figure.axes, location="right", fraction=0.03, pad=0.015, aspect=30)
    bar.set_label("Training images")
    bar.outline.set_linewidth(0.5)
    sizes = sorted({int(total) for count in counts for total in count.sum(axis=1)})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    caption(figure, spec, f"Each client holds {size} training images; white: none of that class.")
    return figure


def _panel(axis: Axes, counts: np.ndarray, most: int):
    clients, classes = counts.shape
    # A power norm: most counts of a Dirichlet partition are small, a few are large.
    shown = np.ma.masked_equal(counts.T, 0)
    image = axis.imshow(shown, aspect="auto", cmap=COLOURS, norm=PowerNorm(0.6, 0, most), interpolation="nearest")
    axis.set(xlabel="Client", ylabel="Class", xticks=ticks(clients), yticks=ticks(classes))
    axis.set_xticks(np.arange(clients + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(classes + 1) - 0.5, minor=True)
    if max(clients, classes) <= FEW_CLIENTS:
        axis.grid(which="minor", color="#e4e4e4", linewidth=0.4)
    axis.tick_params(which="minor", length=0)
    return image


def ticks(number: int) -> np.ndarray:
    """Return about a dozen round ticks for ``number`` clients or classes, from 0."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if number / step <= 12)
    return np.arange(0, number, step)
