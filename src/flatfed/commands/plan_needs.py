"""The runs that tables and figures need, and the state of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.plan import Experiment, Requested, Run, at_scale
from flatfed.plan.number import by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.runs import record as records


@dataclass(frozen=True)
class Need:
    """The runs of tables and figures by path, and the paths of runs whose model an analysis reads."""

    cells: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)

    def __or__(self, other: Need) -> Need:
        """Return the union: shared runs count once."""
        return Need(self.cells + other.cells, self.runs | other.runs, self.analysed | other.analysed)


def needs_of(experiment: Experiment, scale: str, requested: Requested) -> dict[str, Need]:
    """Return the needs of each requested table and figure; a table and a figure of one name count together."""
    tables = {name: numbers(experiment, scale, name, columns) for name, columns in requested.tables.items()}
    figures = {name: at_scale.figure(experiment, scale, name) for name in requested.figures}
    needs = dict.fromkeys([*tables, *figures], Need())
    for name, of_table in tables.items():
        analysed = runs_of(number for number in of_table if number.analysed)
        needs[name] |= Need(len(by_cell(of_table)), runs_of(of_table), set(analysed))
    for name, figure in figures.items():
        needs[name] |= Need(0, figure.runs, set(figure.runs) if figure.analysed else set())
    return needs


def state(run: Run, analysed: bool = False) -> str:
    """Return the state of a run: "finished", "begun", "stale", "damaged" or "missing".

    "stale": of other settings; "damaged": run.json is not a record. An ``analysed`` run without model is missing.
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
    if record.config.deciding != run.config.deciding:
        return "stale"
    return "finished" if record.ended else "begun"
