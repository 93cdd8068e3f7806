"""Final numbers: a group of bars per split, a bar per algorithm, as in DFedSAM, Figure 5 (b)."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from flatfed.experiment.figure_specs import FigureSpec
from flatfed.figures.final import FinalNumbers
from flatfed.figures.palette import style
from flatfed.figures.style import WHISKER, annotate, caption, gridded, legend, quantity

#: The share of a group's width that its bars fill.
FILLED = 0.84


def draw(spec: FigureSpec) -> Figure:
    """Return a figure of kind "bars".

    :raises DataError: the metric is unknown, or a file of a run is damaged.
    """
    shown, final = quantity(spec, spec.metric), FinalNumbers(spec.metric)
    figure, (axis,) = gridded(1, 1, 2.3)
    entries: dict[str, Any] = {}
    for group, panel in enumerate(spec.panels):
        width = FILLED / len(panel.marks)
        for index, bar in enumerate(panel.marks):
            mean, deviation = final.summary(bar) or (None, None)
            height, spread = shown.factor * (mean or 0.0), shown.factor * (deviation or 0.0)
            middle = group - FILLED / 2 + (index + 0.5) * width
            entries[bar.label] = axis.bar(middle, height, 0.92 * width, color=style(bar.algorithm)[0])
            if deviation is not None:
                axis.errorbar(middle, height, spread, **WHISKER)
            if mean is not None:
                annotate(axis, f"{height:.1f}", (middle, height + spread), 2)
    axis.set_xticks(range(len(spec.panels)), [panel.title for panel in spec.panels])
    axis.grid(visible=False, axis="x")
    axis.set(ylabel=shown.label, ylim=(0, axis.get_ylim()[1] * 1.06))
    legend(figure, entries, spec.marks)
    caption(figure, spec, final.explanation("Bar"))
    return figure
