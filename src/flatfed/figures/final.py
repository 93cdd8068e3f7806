"""Final numbers of runs, for figures with one value per run."""

from __future__ import annotations

from flatfed.figures.style import count_text, quantity, seed_text
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark
from flatfed.plan.metrics import evaluations
from flatfed.tables.cells import measure


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
