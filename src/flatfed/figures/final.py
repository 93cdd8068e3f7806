"""Final numbers of runs, for figures with one value per run."""

from __future__ import annotations

import statistics
from dataclasses import replace

from flatfed.figures.style import count_text, quantity, seed_text
from flatfed.plan.figure_specs import FigureSpec, Mark
from flatfed.plan.quantity import evaluations
from flatfed.runs.run import Run
from flatfed.tables.readings import read_run


class FinalNumbers:
    """Reads the final numbers of a figure's metric, in units of its ``quantity``, and counts the runs without one."""

    def __init__(self, spec: FigureSpec):
        self.metric, self.quantity = spec.metric, quantity(spec, spec.metric)
        self.absent = self.diverged = 0
        self.seeds: set[int] = set()
        self.windows = sorted({mark.window for mark in spec.marks})

    def numbers(self, mark: Mark) -> list[float]:
        """Return the numbers of the complete seeds of ``mark``.

        :raises DataError: a run.json or metrics.csv is damaged.
        """
        seeds = [[self._final(run, mark.window) for run in runs] for runs in mark.by_seed]
        numbers = [self.quantity.factor * statistics.fmean(values) for values in seeds if None not in values]
        self.seeds.add(len(numbers))
        return numbers

    def _final(self, run: Run, window: int) -> float | None:
        of_run = read_run(run, run.config.rounds, (self.metric,))
        self.diverged += of_run.diverged
        self.absent += of_run.reading is None
        if of_run.reading is None or of_run.diverged:
            return None
        return replace(of_run.reading, window=window).final(self.metric)

    def explanation(self, mark: str) -> str:
        """Return the caption of a ``mark``."""
        whisker = "; whisker: ± one sample standard deviation over seeds" if max(self.seeds, default=0) > 1 else ""
        counts = {"runs are missing": self.absent, "runs diverged and are left out": self.diverged}
        final = " or ".join(map(evaluations, self.windows))
        return f"{mark}: {final}, {seed_text(self.seeds)}{whisker}.{count_text(counts)}"
