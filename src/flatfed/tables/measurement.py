"""Measures numbers from their runs, and lists them in a frame."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from flatfed.errors import DataError
from flatfed.plan.metrics import METRICS, Metric
from flatfed.plan.number import Number
from flatfed.plan.units import RELATIVES
from flatfed.tables.readings import RunReading, read_source


@dataclass(frozen=True)
class Measured:
    """A number with its ``value`` and that of its base row, None without one, and the readings of their runs."""

    number: Number
    value: float | None
    base_value: float | None = None
    runs: list[RunReading] = field(default_factory=list)
    base_runs: list[RunReading] = field(default_factory=list)

    @property
    def absent(self) -> bool:
        """Whether a run of the row has no finished record."""
        return any(run.reading is None for run in self.runs)


def measure(number: Number, so_far: bool = False) -> Measured:
    """Return ``number`` with its value; ``so_far``: also read unfinished runs, for targets that they reached.

    :raises DataError: a file is damaged, changed, or of another run. The message has a line per refused run.
    """
    metric = METRICS[number.metric]
    runs = read_source(number, number.runs, number.timed, so_far)
    base_runs = read_source(number, number.base_runs, number.base_timed, so_far)
    value = mean([of_run(metric, run) for run in runs]) if runs else number.value
    base = mean([of_run(metric, run) for run in base_runs]) if base_runs else number.base_value
    _check_paired(number, runs, base_runs)
    if number.relative:
        try:
            value = None if None in (value, base) else RELATIVES[number.relative].function(value, base)
        except ZeroDivisionError:
            problem = f"{number.relative} divides by 0: value {value}, base row {base}"
            raise DataError(f"{where(number)}: {problem}") from None
    return Measured(number, value, base, runs, base_runs)


def frame(numbers: Iterable[Measured]) -> pd.DataFrame:
    """Return one row per number, in stored units.

    ``rounds``: completed by the shortest run of the row. ``reached``: whether the target was reached, None without one.
    ``status``: as of a cell. ``problem``: the reasons why a run has no number.
    """
    lines = []
    for entry in numbers:
        number, readings = entry.number, [*entry.runs, *entry.base_runs]
        done = [run.record.rounds_done for run in entry.runs if run.record]
        lines.append(
            {
                "table": number.table,
                "column": number.column,
                "row": number.row,
                "seed": number.seed,
                "value": entry.value,
                "base_value": entry.base_value,
                "status": status([entry.value], readings, METRICS[number.metric]),
                "rounds": min(done, default=None),
                "reached": entry.value is not None if number.target is not None else None,
                "problem": "; ".join(dict.fromkeys(run.problem for run in readings if run.problem)),
            }
        )
    types = {"seed": "Int64", "value": float, "base_value": float, "rounds": "Int64", "reached": "boolean"}
    columns = ["table", "column", "row", "seed", "value", "base_value", "status", "rounds", "reached", "problem"]
    return pd.DataFrame(lines, columns=columns).astype(types)


def where(number: Number) -> str:
    return f"cell {number.table}/{number.column}/{number.row}"


def of_run(metric: Metric, run: RunReading) -> float | None:
    """Return the number of one run, or None."""
    without_number = run.reading is None or run.diverged or (run.unfinished and not metric.needs_target)
    without_rounds = not without_number and metric.needs_runs and not run.reading.history["round"]
    return None if without_number or without_rounds else metric.function(run.reading)


def best(run: RunReading) -> float | None:
    """Return the best finite accuracy of one run, or None."""
    accuracies = run.reading.history.get(run.reading.accuracy, ()) if run.reading else ()
    return max(filter(math.isfinite, accuracies), default=None)


def mean(values: Sequence[float | None]) -> float | None:
    """Return a seed's number, the mean over its runs, None if one of them has none."""
    if not values or None in values:
        return None
    return values[0] if len(values) == 1 else statistics.fmean(values)


def _check_paired(number: Number, runs: list[RunReading], base_runs: list[RunReading]) -> None:
    pairs = ((run.record, base_run.record) for run, base_run in zip(runs, base_runs, strict=False))
    for record, base in (pair for pair in pairs if None not in pair):
        same_data = record.dataset_digest == base.dataset_digest
        same_partition = record.config.split != base.config.split or record.partition_digest == base.partition_digest
        if not (same_data and same_partition):
            different = f"the run and its base run have different {'partitions' if same_data else 'data'}"
            raise DataError(f"{where(number)}: seed {number.seed}: {different}; rerun both")


def status(values: Sequence[float | None], readings: Sequence[RunReading], metric: Metric) -> str:
    """Return the status (:class:`flatfed.tables.cells.Cell`) of ``values``, read from ``readings``."""
    if not values:
        return "not_applicable"
    if any(run.reading is None for run in readings):
        return "missing"
    if any(run.diverged for run in readings):
        return "diverged"
    if all(value is not None for value in values):
        return "ok"
    return "unfinished" if waiting(readings, metric) else "not_reached"


def waiting(readings: Iterable[RunReading], metric: Metric) -> list[RunReading]:
    """Return the unfinished runs that may still get a number."""
    return [run for run in readings if run.unfinished and run.reading and of_run(metric, run) is None]
