"""What tables and figures need: runs and timings; and what is there of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.experiment import Cell, Drawing, Experiment, Run, tuning
from flatfed.runs import identity
from flatfed.runs import record as records


@dataclass
class Need:
    """What a table or figure, or several, need: runs by path, those whose model an analysis reads, timings by path."""

    cells: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)
    timings: dict[str, Run] = field(default_factory=dict)

    def add_cells(self, cells: Iterable[Cell]) -> None:
        """Add what ``cells`` read."""
        for cell in cells:
            self.cells += 1
            self.runs |= {run.path: run for run in cell.runs}
            if cell.analysed:
                self.analysed |= {run.path for run in cell.runs}
            self.timings |= {run.timing: run for run in cell.timed}

    def add_figure(self, figure: Drawing) -> None:
        """Add what a figure, as ``Experiment.figure`` returns it, reads."""
        self.runs |= figure.runs
        if figure.analysed:
            self.analysed |= set(figure.runs)

    def add_searches(self, searches: Iterable[tuning.Search], experiment: Experiment) -> None:
        """Add the runs that ``searches`` try the points of their grids with."""
        for search in searches:
            runs = [tuning.run(experiment, search, point) for point in search.points()]
            self.runs |= {run.path: run for run in runs}

    def join(self, other: Need) -> None:
        """Add another need; runs that both share count once."""
        self.cells += other.cells
        self.runs |= other.runs
        self.analysed |= other.analysed
        self.timings |= other.timings


def needs_of(
    experiment: Experiment, scale: str, tables: list[tuple[str, list[str] | None]], figures: list[str], tuned: bool
) -> dict[str, Need]:
    """Return what each of ``tables`` and ``figures`` needs: its runs or, if ``tuned``, those that choose for it."""
    needs = {name: Need() for name in [*(name for name, _ in tables), *figures]}
    for name, columns in tables:
        if tuned:
            needs[name].add_searches(tuning.searches_for(experiment, scale, [(name, columns)], []), experiment)
        else:
            needs[name].add_cells(experiment.cells(scale, name, columns))
    for name in figures:
        if tuned:
            needs[name].add_searches(tuning.searches_for(experiment, scale, [], [name]), experiment)
        else:
            needs[name].add_figure(experiment.figure(scale, name))
    return needs


def state(run: Run, analysed: bool = False) -> str:
    """Return what is there of a run: "finished", "begun", "stale", "damaged" or "missing".

    "stale": it was made from another description; "damaged": its run.json cannot be read as a record. A run whose model
    was not kept is missing where an analysis has to read the model (``analysed``).
    """
    try:
        record = records.read(run.record)
        description = identity.updated(record.description)
    except FileNotFoundError:
        folder = Path(run.path)
        return "begun" if folder.is_dir() and any(folder.iterdir()) else "missing"
    except DataError:
        return "damaged"
    if analysed and not Path(run.model).exists():
        return "missing"
    if description != run.description:
        return "stale"
    return "finished" if record.ended else "begun"
