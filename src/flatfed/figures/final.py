"""Final numbers of runs, for figures with one value per run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from flatfed.experiment.figure_specs import Mark
from flatfed.figures.style import count_text, seed_text
from flatfed.papers.quantity import evaluations
from flatfed.runs.run import Run
from flatfed.tables.readings import read_run


@dataclass
class FinalNumbers:
    """Reads the final ``metric`` of runs, and counts the runs without one."""

    metric: str
    absent: int = 0
    diverged: int = 0
    seeds: set[int] = field(default_factory=set)
    windows: set[int] = field(default_factory=set)

    def summary(self, mark: Mark) -> tuple[float, float | None] | None:
        """Return (mean over seeds, sample deviation or None) of ``mark``, None without a complete seed.

        :raises DataError: a run.json or metrics.csv is damaged.
        """
        numbers = []
        self.windows.add(mark.window)
        for runs in mark.by_seed:
            values = [self._final(run, mark.window) for run in runs]
            if None not in values:
                numbers.append(statistics.fmean(values))
        if not numbers:
            return None
        self.seeds.add(len(numbers))
        return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None

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
        final = " or ".join(evaluations(window) for window in sorted(self.windows))
        return f"{mark}: {final}, {seed_text(self.seeds)}{whisker}.{count_text(counts)}"
