"""Final numbers: a group of bars per split, a bar per algorithm, as in DFedSAM, Figure 5 (b)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from flatfed.figures.final import FinalNumbers
from flatfed.figures.palette import style
from flatfed.figures.style import WHISKER, caption, gridded, legend
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark

#: The share of a group's width that its bars fill.
FILLED = 0.84


def draw(spec: ShownFigure) -> Figure:
    """Return a figure of kind "bars".

    :raises DataError: a file of a run is damaged.
    """
    final = FinalNumbers(spec)
    figure, (axis,) = gridded(1, 1, 2.3)
    entries: dict[str, Any] = {}
    for group, panel in enumerate(spec.panels):
        width = FILLED / len(panel.marks)
        for index, mark in enumerate(panel.marks):
            middle = group - FILLED / 2 + (index + 0.5) * width
            entries[mark.label] = bar(axis, mark, (middle, 0.92 * width), final.numbers(mark), ".1f", 2)
            if mark.algorithm == spec.look.highlight:
                entries[mark.label].patches[0].set(edgecolor="black", linewidth=1.2)
    axis.set_xticks(range(len(spec.panels)), [panel.title for panel in spec.panels])
    axis.grid(visible=False, axis="x")
    axis.set(ylabel=final.quantity.label, ylim=(0, axis.get_ylim()[1] * 1.06))
    legend(figure, entries, spec.marks)
    caption(figure, spec, final.explanation("Bar"))
    return figure


def bar(
    axis: Axes,
    mark: Mark,
    span: tuple[float, float],
    numbers: Sequence[float],
    digits: str,
    offset: float,
    others: Sequence[float] = (),
) -> BarContainer:
    """Draw a mark's ``numbers``, one per seed, as a bar with a whisker and their mean; return the bar.

    ``span``: its middle and width. ``digits``: format of the mean, ``offset`` points above the bar and ``others``.
    """
    height = statistics.fmean(numbers) if numbers else 0.0
    spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    drawn = axis.bar(span[0], height, span[1], color=style(mark.algorithm)[0])
    if len(numbers) > 1:
        axis.errorbar(span[0], height, spread, **WHISKER)
    if numbers:
        above = span[0], max([height + spread, *others])
        axis.annotate(f"{height:{digits}}", above, (0, offset), textcoords="offset points", ha="center", fontsize=6)
    return drawn
