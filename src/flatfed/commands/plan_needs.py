"""What tables and figures need: runs and timings; and what is there of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.experiment import Asked, Experiment, Run, cell_specs, figure_specs, selection, tuning
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
    columns = dict(asked.tables)
    for name in dict.fromkeys([*columns, *asked.figures]):  # a table and a figure may have one name
        tables = [(name, columns[name])] if name in columns else []
        part = Asked(tables, [name] if name in asked.figures else [])
        if tuned:
            searches, parts = selection.searches(experiment, scale, part), (experiment.catalog, experiment.places)
            runs = [tuning.run(*parts, search, point) for search in searches for point in search.combinations()]
            needs[name] = Need(runs={run.path: run for run in runs})
            continue
        cells = [cell for table, shown in tables for cell in cell_specs.cells(experiment, scale, table, shown)]
        figures = [figure_specs.figure_spec(experiment, scale, figure) for figure in part.figures]
        sources = [(cell.analysed, cell.runs) for cell in cells]
        sources += [(figure.analysed, figure.runs.values()) for figure in figures]
        needs[name] = Need(
            cells=len(cells),
            runs={run.path: run for _, runs in sources for run in runs},
            analysed={run.path for analysed, runs in sources if analysed for run in runs},
            timings={run.timing: run for cell in cells for run in cell.timed},
        )
    return needs


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
