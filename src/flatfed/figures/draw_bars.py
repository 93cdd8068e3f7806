"""Final numbers: a group of bars per split, a bar per algorithm, as in DFedSAM, Figure 5 (b)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from flatfed.figures.palette import style
from flatfed.figures.style import WHISKER, caption, count_text, gridded, legend, quantity, seed_text
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.plan.metrics import evaluations
from flatfed.tables.measurement import measure

#: The share of a group's width that its bars fill.
FILLED = 0.84


class FinalNumbers:
    """Measures the final numbers of a figure, in units of its ``quantity``, and counts the runs without one."""

    def __init__(self, spec: ShownFigure):
        self.quantity = quantity(spec, spec.metric)
        self.absent = self.diverged = 0
        self.seeds: set[int] = set()
        self.windows = sorted({number.window for mark in spec.marks for number in mark.numbers})

    def numbers(self, mark: Mark) -> list[float]:
        """Return the numbers of the complete seeds of ``mark``.

        :raises DataError: a run.json or metrics.csv is damaged.
        """
        measured = [measure(number) for number in mark.numbers]
        readings = [run for number in measured for run in number.runs]
        self.diverged += sum(run.diverged for run in readings)
        self.absent += sum(run.reading is None for run in readings)
        numbers = [self.quantity.factor * number.value for number in measured if number.value is not None]
        self.seeds.add(len(numbers))
        return numbers

    def explanation(self, mark: str) -> str:
        """Return the caption of a ``mark``."""
        whisker = "; whisker: ± one sample standard deviation over seeds" if max(self.seeds, default=0) > 1 else ""
        counts = {"runs are missing": self.absent, "runs diverged and are left out": self.diverged}
        final = " or ".join(map(evaluations, self.windows))
        return f"{mark}: {final}, {seed_text(self.seeds)}{whisker}.{count_text(counts)}"


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
            if mark.algorithm == spec.highlight:
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
