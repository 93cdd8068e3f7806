"""Final numbers of runs for figures that plot one value per run: read as a table's cells are, and counted if absent."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from flatfed.experiment.panels import Mark
from flatfed.figures.style import counted, seeds
from flatfed.runs.run import Run
from flatfed.tables.readings import read_run


@dataclass
class FinalNumbers:
    """Reads the final ``metric`` of runs, and counts those without one."""

    metric: str
    absent: int = 0
    diverged: int = 0
    seeds: set[int] = field(default_factory=set)

    def summary(self, mark: Mark) -> tuple[float, float | None] | None:
        """Return (mean over seeds, sample deviation or None for one seed) of the runs of ``mark``.

        A seed's number is the mean over its runs; a seed without all of them is left out. None where none is left.

        :raises DataError: a run.json or metrics.csv is damaged.
        """
        numbers = []
        for runs in mark.by_seed:
            values = [self._final(run) for run in runs]
            if None not in values:
                numbers.append(statistics.fmean(values))
        if not numbers:
            return None
        self.seeds.add(len(numbers))
        return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None

    def _final(self, run: Run) -> float | None:
        found = read_run(run, run.description["rounds"], (self.metric,))
        self.diverged += found.diverged
        self.absent += found.reading is None
        return None if found.reading is None or found.diverged else found.reading.history[self.metric][-1]

    def explanation(self, mark: str) -> str:
        """Say what a ``mark`` is, how many seeds it stands for, and what is not there."""
        whisker = "; whisker: ± one sample standard deviation over seeds" if max(self.seeds, default=0) > 1 else ""
        absences = {"runs are missing": self.absent, "runs diverged and are left out": self.diverged}
        return f"{mark}: final round, {seeds(self.seeds)}{whisker}.{counted(absences)}"
