"""A number that a table or figure needs; what the rules and commands ask of lists of numbers, and digests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from flatfed.files import digest_json
from flatfed.plan.metrics import DEFAULT_ACCURACY, METRICS
from flatfed.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number of one seed, or of no seed: a ``metric`` of :mod:`flatfed.plan.metrics` in a cell of a table.

    ``runs``: one per split of a mean; ``timed``: the run whose timing.json it reads; ``value``: a number known without
    runs; the same of the row ``base`` that it is compared with as ``relative``. Without all of these the cell is not
    applicable. ``target``: the target accuracy, a fraction. ``window``: the number of final evaluated rounds that are
    averaged. ``accuracy``: the column of metrics.csv whose centred mean of ``smoothing`` evaluated rounds reaches
    targets.
    """

    table: str
    column: str
    row: str
    scale: str
    metric: str
    seed: int | None = None
    runs: tuple[Run, ...] = ()
    timed: Run | None = None
    value: float | None = None
    relative: str | None = None
    base: str | None = None
    base_runs: tuple[Run, ...] = ()
    base_timed: Run | None = None
    base_value: float | None = None
    target: float | None = None
    window: int = 1
    smoothing: int = 1
    rounds: int = 0
    accuracy: str = DEFAULT_ACCURACY

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """The runs of the row and of its base row."""
        return (*self.runs, *self.base_runs)

    @property
    def all_timed(self) -> list[Run]:
        """The runs with a timing.json that the number reads."""
        return [run for run in (self.timed, self.base_timed) if run]

    @property
    def analyses(self) -> list[str]:
        """The files of the analyses of its runs that the number reads."""
        name = METRICS[self.metric].analysis
        return [f"{run.analysis_folder}/{name}" for run in self.all_runs if name]


def by_cell(numbers: Iterable[Number]) -> dict[tuple[str, str], list[Number]]:
    """Return {(column, row): the numbers of a cell}."""
    cells: dict[tuple[str, str], list[Number]] = {}
    for number in numbers:
        cells.setdefault((number.column, number.row), []).append(number)
    return cells


def runs_of(numbers: Iterable[Number]) -> dict[str, Run]:
    """Return the runs of ``numbers`` by folder."""
    return {run.path: run for number in numbers for run in number.all_runs}


def inputs(numbers: Iterable[Number]) -> list[str]:
    """Return the files that ``numbers`` read."""
    files: dict[str, None] = {}
    for number in numbers:
        files |= dict.fromkeys(run.timing for run in number.all_timed)
        files |= dict.fromkeys(number.analyses)
        files |= dict.fromkeys(file for run in number.all_runs for file in (run.partition, *run.files))
    return list(files)


def digest(*contents: Any) -> str:
    """Return a digest of specifications, with the folder, partition and results-determining values of runs."""
    return digest_json(_plain(contents))[:16]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):  # most values are of these types
        return value
    if isinstance(value, Run):
        return [value.path, value.partition, value.deciding_digest]
    if isinstance(value, BaseModel):
        return _plain(dict(value))
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value]
