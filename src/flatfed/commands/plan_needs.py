"""What tables and figures need: runs and timings; and what is there of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.experiment import (
    Asked,
    AskedTable,
    CellSpec,
    Experiment,
    FigureSpec,
    Run,
    cell_specs,
    figure_specs,
    selection,
    tuning,
)
from flatfed.runs import record as records


@dataclass(frozen=True)
class Need:
    """What a table or figure, or several, need: runs by path, those whose model an analysis reads, timings by path."""

    cells: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)
    timings: dict[str, Run] = field(default_factory=dict)


def joined(needs: Iterable[Need]) -> Need:
    """Return what all ``needs`` come to; what several share counts once."""
    total = Need()
    for need in needs:
        runs, timings = total.runs | need.runs, total.timings | need.timings
        total = Need(total.cells + need.cells, runs, total.analysed | need.analysed, timings)
    return total


def needs_of(
    experiment: Experiment, scale: str, tables: list[AskedTable], figures: list[str], tuned: bool
) -> dict[str, Need]:
    """Return what each of ``tables`` and ``figures`` needs: its runs or, if ``tuned``, those that choose for it."""
    if tuned:
        asked = {name: ([(name, columns)], []) for name, columns in tables} | {name: ([], [name]) for name in figures}
        return {name: _of_searches(experiment, scale, *each) for name, each in asked.items()}
    needs = {name: _of_cells(cell_specs.cells(experiment, scale, name, columns)) for name, columns in tables}
    return needs | {name: _of_figure(figure_specs.figure_spec(experiment, scale, name)) for name in figures}


def _of_cells(cells: list[CellSpec]) -> Need:
    return Need(
        cells=len(cells),
        runs={run.path: run for cell in cells for run in cell.runs},
        analysed={run.path for cell in cells if cell.analysed for run in cell.runs},
        timings={run.timing: run for cell in cells for run in cell.timed},
    )


def _of_figure(figure: FigureSpec) -> Need:
    return Need(runs=dict(figure.runs), analysed=set(figure.runs) if figure.analysed else set())


def _of_searches(experiment: Experiment, scale: str, tables: list[AskedTable], figures: list[str]) -> Need:
    searches = selection.searches(experiment, scale, Asked(tables, figures))
    runs = [tuning.run(experiment.catalog, experiment.places, one, point) for one in searches for point in one.points()]
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
