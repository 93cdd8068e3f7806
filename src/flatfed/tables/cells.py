"""The cells of a table: the summary of its numbers over seeds, and the filled table."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial

from flatfed.config.table import TableDocument
from flatfed.errors import DataError
from flatfed.plan.at_scale import ShownTable
from flatfed.plan.metrics import METRICS, Metric, unit_of
from flatfed.plan.number import Number, by_cell
from flatfed.plan.reference import FLAG, Printed
from flatfed.plan.tables import Column, Row
from flatfed.runs import curvature, versions
from flatfed.runs.curvature import Hessian, OtherEstimate
from flatfed.runs.record import RunRecord
from flatfed.tables import measurement
from flatfed.tables.measurement import Measured
from flatfed.tables.readings import RunReading, read_all


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell: the summary of its ``measured`` numbers, one per seed, in the stored ``unit``.

    ``number``: that of the first seed, with ids, metric and target. ``printed``: the paper's number, ``printed_unit``:
    its unit. ``document``: the table's, which says how both are compared. ``n``: the number of seeds, None if the
    number does not depend on them. ``reached``: seeds that reached the target, "1/2". ``status``:

    ``ok``
        every seed has a number: only then a mean ``value`` and a sample deviation ``spread`` (None for one seed)
    ``not_reached``
        a seed, or its base, did not reach the target
    ``unfinished``
        a run has no number yet; ``rounds``: its completed rounds
    ``diverged``
        a run ended in non-finite numbers
    ``missing``
        a run is absent or unfinished; ``problems`` names it
    ``not_applicable``
        the cell has no sources
    """

    number: Number
    printed_unit: str
    printed: Printed | None
    document: TableDocument
    measured: list[Measured]
    status: str
    value: float | None
    spread: float | None
    n: int | None
    reached: str | None
    rounds: int

    @property
    def column(self) -> str:
        """The id of the column."""
        return self.number.column

    @property
    def row(self) -> str:
        """The id of the row."""
        return self.number.row

    @property
    def metric(self) -> Metric:
        """The metric."""
        return METRICS[self.number.metric]

    @property
    def unit(self) -> str:
        """The stored unit: "fraction" where the printed unit is "percent"."""
        return unit_of(self.number.metric, self.number.relative)

    @property
    def decimals(self) -> int | None:
        """The decimals of the printed number."""
        return self.printed and self.printed.decimals

    @property
    def values(self) -> list[float | None]:
        """The number of each seed."""
        return [entry.value for entry in self.measured]

    @property
    def base_values(self) -> list[float | None]:
        """The number of the base row for each seed, in the unit of the metric."""
        return [entry.base_value for entry in self.measured] if self.number.relative else []

    @property
    def best(self) -> list[float | None]:
        """The best accuracy of each seed over all rounds, a fraction."""
        return [measurement.mean([*map(measurement.best, entry.runs)]) for entry in self.measured]

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [entry.number.seed for entry in self.measured if entry.number.seed is not None]

    @property
    def absent(self) -> list[int]:
        """The seeds without a finished run."""
        return [entry.number.seed for entry in self.measured if entry.absent]

    @property
    def runs(self) -> list[str]:
        """The folders of the runs in results/."""
        return [run.in_results.path for entry in self.measured for run in entry.number.runs]

    @property
    def base_runs(self) -> list[str]:
        """The folders of the runs of the base row in results/."""
        return [run.in_results.path for entry in self.measured for run in entry.number.base_runs]

    @cached_property
    def readings(self) -> list[RunReading]:
        """The readings of all runs, those of the base row last."""
        rows = [run for entry in self.measured for run in entry.runs]
        return rows + [run for entry in self.measured for run in entry.base_runs]

    @property
    def records(self) -> list[RunRecord]:
        """The records of all runs."""
        return [run.record for run in self.readings if run.record]

    @property
    def hessians(self) -> list[Hessian]:
        """The Hessians behind the value."""
        analysed = self.status == "ok" and self.metric.source == "hessian"
        return [run.reading.hessian for run in self.readings] if analysed else []

    @property
    def paper(self) -> tuple[float | None, float | None]:
        """The printed value and spread, in the stored unit."""
        return self.printed.stored(self.printed_unit) if self.printed else (None, None)

    @property
    def paper_note(self) -> str:
        """The note at the printed number."""
        return (self.printed and self.printed.note) or ""

    @property
    def flags(self) -> tuple[str, ...]:
        """The ids of the errata that the printed number cites: B1 for "flag:B1"."""
        return tuple(FLAG.findall(self.paper_note))

    @property
    def difference(self) -> float | None:
        """Our value minus the paper's, without floating-point noise; None if the table does not compare values."""
        paper_value, _ = self.paper
        comparable = self.document.compare == "values" and None not in (self.value, paper_value)
        return round(self.value - paper_value, 10) if comparable else None

    @cached_property
    def beside(self) -> OtherEstimate | None:
        """PyHessian's estimate (:func:`flatfed.runs.curvature.pyhessian_mean`), if the table shows it."""
        shown = self.document.pyhessian and not self.number.relative
        return curvature.pyhessian_mean(self.hessians, self.number.metric) if shown else None

    @property
    def error(self) -> float | None:
        """The largest relative error of one seed's estimate."""
        return curvature.largest_error(self.hessians, self.number.metric)

    @property
    def problems(self) -> list[str]:
        """The reasons why numbers are absent."""
        return list(dict.fromkeys(run.problem for run in self.readings if run.problem))

    @cached_property
    def outdated(self) -> dict[str, str]:
        """Run -> how its code differs from the present."""
        timings = [run.timing for run in self.readings if run.timing]
        remarks = [(timing.config.ids.name, versions.changes(timing.config, timing.versions)) for timing in timings]
        remarks += [(record.name, versions.remarks(record)) for record in self.records]
        return {name: text for name, text in remarks if text}

    @property
    def warnings(self) -> list[str]:
        """The warnings of analyses and timings, and of the runs of other code."""
        return [
            *dict.fromkeys(run.warning for run in self.readings if run.warning),
            *(f"{name}: {text}" for name, text in self.outdated.items()),
        ]

    @property
    def timed(self) -> list[str]:
        """The machines and executors of measured seconds."""
        return sorted({f"{run.timing.machine}, {run.timing.executor} executor" for run in self.readings if run.timing})


@dataclass(frozen=True)
class FilledTable:
    """A table with its cells ``by_column`` and row."""

    shown: ShownTable
    by_column: dict[str, dict[str, Cell]]

    @property
    def labelled_cells(self) -> list[tuple[Column, Row, Cell]]:
        """All cells with column and row, row by row."""
        pairs = itertools.product(self.shown.rows.values(), self.shown.columns.values())
        return [(column, row, self.by_column[column.id][row.algorithm]) for row, column in pairs]

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for *_, cell in self.labelled_cells]

    @property
    def statuses(self) -> Counter[str]:
        """The number of cells with each status."""
        return Counter(cell.status for cell in self.cells)

    @cached_property
    def usual_n(self) -> int | None:
        """The number of seeds of most cells, or None."""
        seeds = Counter(cell.n for cell in self.cells if cell.value is not None and cell.n)
        return max(seeds, key=lambda n: (seeds[n], n), default=None)

    @cached_property
    def has_differences(self) -> bool:
        """Whether any cell has a difference from the paper."""
        return any(cell.difference is not None for cell in self.cells)


def fill(table: ShownTable, *, so_far: bool = False) -> FilledTable:
    """Return ``table`` with its cells; ``so_far``: also from unfinished runs.

    :raises DataError: runs are refused; the message has a line for each.
    """
    by_column: dict[str, dict[str, Cell]] = {column: {} for column in table.columns}

    def filled(item: tuple[tuple[str, str], list[Number]]) -> Cell:
        (column, row), of_cell = item
        unit, printed = table.columns[column].unit, table.paper.get((column, row))
        return summarise(of_cell, unit, printed, table.document, so_far=so_far)

    for cell in read_all(filled, by_cell(table.numbers).items()):
        by_column[cell.column][cell.row] = cell
    return FilledTable(table, by_column)


def summarise(
    numbers: Iterable[Number], unit: str, printed: Printed | None, document: TableDocument, *, so_far: bool = False
) -> Cell:
    """Return the cell of ``numbers``, one per seed, and of the ``printed`` one in its ``unit``.

    ``document``: the table's. ``so_far`` as in :func:`measure`.

    :raises DataError: as :func:`measure`, or seeds were trained by different code.
    """
    measured = read_all(partial(measurement.measure, so_far=so_far), numbers)
    number = measured[0].number
    metric, where = METRICS[number.metric], measurement.where(number)
    measured = [entry for entry in measured if entry.runs or entry.number.value is not None]
    readings = [run for entry in measured for run in (*entry.runs, *entry.base_runs)]
    if len(machines := sorted({run.timing.machine for run in readings if run.timing})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(machines)} do not compare; time both on one machine")
    values = [entry.value for entry in measured]
    status = measurement.status(values, readings, metric)
    value = spread = None
    if status == "ok":
        versions.check_same([run.record for run in readings if run.record], where)
        value = statistics.fmean(values)
        spread = statistics.stdev(values) if len(values) > 1 else None
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    complete = bool(values) and all(run.reading is not None for run in readings)
    reached = f"{len(values) - values.count(None)}/{len(values)}"
    rounds = number.rounds
    if status == "unfinished":
        rounds = min(run.record.rounds_done for run in measurement.waiting(readings, metric))
    return Cell(
        number=number,
        printed_unit=unit,
        printed=printed,
        document=document,
        measured=measured,
        status=status,
        value=value,
        spread=spread,
        n=None if metric.source == "declared" else sum(not entry.absent for entry in measured),
        reached=reached if metric.needs_target and complete else None,
        rounds=rounds,
    )
