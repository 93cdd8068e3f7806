"""What tables and figures need: runs and timings; and what is there of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.experiment import Asked, AskedTable, Experiment, Run, tuning
from flatfed.runs import record as records


@dataclass(frozen=True)
class Need:
    """What a table or figure, or several, need: runs by path, those whose model an analysis reads, timings by path."""

    cells: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)
    timings: dict[str, Run] = field(default_factory=dict)

    def __or__(self, other: Need) -> Need:
        """Return what both need; what they share counts once."""
        runs, timings = self.runs | other.runs, self.timings | other.timings
        return Need(self.cells + other.cells, runs, self.analysed | other.analysed, timings)


def needs_of(experiment: Experiment, scale: str, asked: Asked, tuned: bool) -> dict[str, Need]:
    """Return what each table and figure ``asked`` for needs: its runs or, if ``tuned``, those that choose for it."""
    needs = {}
    for name, columns in asked.tables:
        if tuned:
            needs[name] = _of_searches(experiment, scale, [(name, columns)], [])
            continue
        cells = experiment.cells(scale, name, columns)
        needs[name] = Need(
            cells=len(cells),
            runs={run.path: run for cell in cells for run in cell.runs},
            analysed={run.path for cell in cells if cell.analysed for run in cell.runs},
            timings={run.timing: run for cell in cells for run in cell.timed},
        )
    for name in asked.figures:
        if tuned:
            needs[name] = _of_searches(experiment, scale, [], [name])
            continue
        figure = experiment.figure(scale, name)
        needs[name] = Need(runs=dict(figure.runs), analysed=set(figure.runs) if figure.analysed else set())
    return needs


def _of_searches(experiment: Experiment, scale: str, tables: list[AskedTable], figures: list[str]) -> Need:
    searches = tuning.searches_for(experiment, scale, tables, figures)
    runs = [tuning.run(experiment, search, point) for search in searches for point in search.points()]
    return Need(runs={run.path: run for run in runs})


def state(run: Run, analysed: bool = False) -> str:
    """Return what is there of a run: "finished", "begun", "stale", "damaged" or "missing".

    "stale": it was made from another description; "damaged": its run.json cannot be read as a record. A run whose model
    was not kept is missing where an analysis has to read the model (``analysed``).
    """
    try:
        record = records.read(run.record)
    except FileNotFoundError:
        folder = Path(run.path)
        return "begun" if folder.is_dir() and any(folder.iterdir()) else "missing"
    except DataError:
        return "damaged"
    if analysed and not Path(run.model).exists():
        return "missing"
    if record.description != run.description:
        return "stale"
    return "finished" if record.ended else "begun"
