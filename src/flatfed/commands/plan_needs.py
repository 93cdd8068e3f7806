"""The runs that tables and figures need, and the state of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flatfed.errors import DataError
from flatfed.experiment import Experiment, Requested, Run, cell_specs, figure_specs
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
    specs = {name: cell_specs.cells(experiment, scale, name, columns) for name, columns in requested.tables}
    figures = {name: figure_specs.figure_spec(experiment, scale, name) for name in requested.figures}
    needs = dict.fromkeys([*specs, *figures], Need())
    sources = [(name, 1, cell.analysed, cell.runs) for name, cells in specs.items() for cell in cells]
    sources += [(name, 0, figure.analysed, figure.runs.values()) for name, figure in figures.items()]
    for name, cells, analysed, of_part in sources:
        runs = {run.path: run for run in of_part}
        needs[name] |= Need(cells, runs, set(runs) if analysed else set())
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
