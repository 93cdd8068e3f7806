"""The cells of a table: values of its numbers, measured from runs, their summary over seeds, the filled table."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from flatfed.errors import DataError
from flatfed.plan.at_scale import ShownTable
from flatfed.plan.metrics import DEFAULT_ACCURACY, METRICS, Metric, unit_of
from flatfed.plan.number import Number, by_cell
from flatfed.plan.reference import Printed
from flatfed.plan.tables import Column, Row
from flatfed.plan.units import RELATIVES
from flatfed.runs import curvature, versions
from flatfed.runs.curvature import OtherEstimate, RelativeErrors
from flatfed.tables.readings import RunReading, read_all, read_source, rounding


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell, computed from its runs, as ``results/<scale>/cells`` stores it.

    Numbers are in the stored ``unit`` ("fraction" where ``printed_unit`` is "percent"), ``base_values`` in that of the
    metric. ``values``: one per seed, or None. ``absent``: the ``seeds`` without a finished run. ``n``: the number of
    seeds, None if the number does not depend on them. ``best``: each seed's best ``accuracy`` over all rounds, a
    fraction. ``reached``: seeds that reached the target, "1/2". ``status``:

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

    ``difference``: our value minus the paper's; a preview has no number of a paper. ``beside``: PyHessian's estimate
    (:func:`flatfed.runs.curvature.pyhessian_mean`). ``errors``: relative errors of one seed's estimate. ``timed``:
    machine and executor of measured seconds. ``images``: {dataset: {"train": images, "test": images}}. ``contents``:
    {dataset: digests of the runs' data}. ``roundings``: run -> :func:`flatfed.tables.readings.rounding`. ``outdated``:
    run -> how its code differs from the present; ``warnings`` has these, too. ``lines``: run -> digest of its lines.
    """

    table: str
    column: str
    row: str
    scale: str
    metric: str
    unit: str
    printed_unit: str
    relative: str | None
    base: str | None = None
    status: str
    value: float | None
    spread: float | None
    spread_kind: str = "seeds"
    n: int | None
    values: list[float | None]
    base_values: list[float | None] = field(default_factory=list)
    best: list[float | None] = field(default_factory=list)
    accuracy: str = DEFAULT_ACCURACY
    reached: str | None = None
    target: float | None
    window: int = 1
    smoothing: int = 1
    rounds: int = 0
    seeds: list[int]
    absent: list[int] = field(default_factory=list)
    runs: list[str]
    base_runs: list[str] = field(default_factory=list)
    paper_value: float | None
    paper_spread: float | None
    paper_decimals: int | None
    paper_note: str
    difference: float | None
    compare: str
    tolerance: tuple[float, float] | None = None
    judged: bool = True
    problems: list[str] = field(default_factory=list)
    beside: OtherEstimate | None = None
    errors: RelativeErrors | None = None
    warnings: list[str] = field(default_factory=list)
    timed: list[str] = field(default_factory=list)
    images: dict[str, dict[str, int]] = field(default_factory=dict)
    contents: dict[str, list[str]] = field(default_factory=dict)
    roundings: dict[str, list[str | None]] = field(default_factory=dict)
    outdated: dict[str, str] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """A number with its ``value`` and that of its base row, None without one, and the readings of their runs."""

    number: Number
    value: float | None
    base_value: float | None
    runs: list[RunReading]
    base_runs: list[RunReading]


@dataclass(frozen=True)
class FilledTable:
    """A table with its cells ``by_column`` and row."""

    shown: ShownTable
    by_column: dict[str, dict[str, Cell]]

    @property
    def labelled_cells(self) -> list[tuple[Column, Row, Cell]]:
        """All cells with column and row, row by row."""
        pairs = itertools.product(self.shown.rows.values(), self.shown.columns.values())
        return [(column, row, self.by_column[column.id][row.id]) for row, column in pairs]

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
    for cell in read_all(partial(summarise, so_far=so_far), by_cell(table.numbers).values()):
        by_column[cell.column][cell.row] = cell
    return FilledTable(table, by_column)


def measure(number: Number, so_far: bool = False) -> Measured:
    """Return ``number`` with its value; ``so_far``: also read unfinished runs, for targets that they reached.

    :raises DataError: a file is damaged, changed, or of another run. The message has a line per refused run.
    """
    metric = METRICS[number.metric]
    runs = read_source(number, number.runs, number.timed, so_far)
    base_runs = read_source(number, number.base_runs, number.base_timed, so_far)
    value = _mean([of_run(metric, run) for run in runs]) if runs else number.value
    base = _mean([of_run(metric, run) for run in base_runs]) if base_runs else number.base_value
    _check_paired(number, runs, base_runs)
    if number.relative:
        try:
            value = None if None in (value, base) else RELATIVES[number.relative].function(value, base)
        except ZeroDivisionError:
            problem = f"{number.relative} divides by 0: value {value}, base row {base}"
            raise DataError(f"{_where(number)}: {problem}") from None
    return Measured(number, value, base, runs, base_runs)


def summarise(numbers: Iterable[Number], *, so_far: bool = False) -> Cell:
    """Return the cell of ``numbers``, one per seed; ``so_far`` as in :func:`measure`.

    :raises DataError: as :func:`measure`, or seeds were trained by different code.
    """
    measured = read_all(partial(measure, so_far=so_far), numbers)
    number = measured[0].number
    metric, where = METRICS[number.metric], _where(number)
    measured = [entry for entry in measured if entry.runs or entry.number.value is not None]
    readings = [run for entry in measured for run in entry.runs]
    readings += [run for entry in measured for run in entry.base_runs]
    records = [run.record for run in readings if run.record]
    timings = [run.timing for run in readings if run.timing]
    if len(machines := sorted({timing.machine for timing in timings})) > 1:
        raise DataError(f"{where}: seconds of {' and of '.join(machines)} do not compare; time both on one machine")
    values = [entry.value for entry in measured]
    begun = [run for run in readings if run.unfinished and run.reading and of_run(metric, run) is None]
    status = _status(values, readings, bool(begun))
    value, spread, hessians = None, None, []
    if status == "ok":
        versions.check_same(records, where)
        value = statistics.fmean(values)
        spread = statistics.stdev(values) if len(values) > 1 else None
        hessians = [run.reading.analysis for run in readings if number.analysed]
    if spread is not None and not math.isfinite(spread):
        raise DataError(f"{where}: the spread over seeds is not a finite number: values {values}")
    remarks = [(timing.config.ids.name, versions.changes(timing.config, timing.versions)) for timing in timings]
    remarks += [(record.name, versions.remarks(record)) for record in records]
    outdated = {name: text for name, text in remarks if text}
    complete = all(run.reading is not None for run in readings)
    seeds_read = sum(all(run.reading is not None for run in entry.runs) for entry in measured)
    reached = f"{len(values) - values.count(None)}/{len(values)}"
    datasets = (run.dataset for entry in measured for run in entry.number.all_runs)
    printed = number.paper or Printed(None)
    paper_value, paper_spread = printed.stored(number.unit)
    comparable = number.compare == "values" and None not in (value, paper_value)
    results = dict(
        unit=unit_of(number.metric, number.relative),
        printed_unit=number.unit,
        status=status,
        value=value,
        spread=spread,
        n=None if metric.source in ("declared", "config") else seeds_read,
        values=values,
        base_values=[entry.base_value for entry in measured] if number.relative else [],
        best=[_mean([*map(_best, entry.runs)]) for entry in measured],
        reached=reached if metric.needs_target and complete and values else None,
        rounds=min(run.record.rounds_done for run in begun) if status == "unfinished" else number.rounds,
        seeds=[entry.number.seed for entry in measured if entry.number.seed is not None],
        absent=[entry.number.seed for entry in measured if any(run.reading is None for run in entry.runs)],
        runs=[run.in_results.path for entry in measured for run in entry.number.runs],
        base_runs=[run.in_results.path for entry in measured for run in entry.number.base_runs],
        paper_value=paper_value,
        paper_spread=paper_spread,
        paper_decimals=printed.decimals,
        paper_note=printed.note or "",
        # Ten decimals drop only floating-point noise.
        difference=round(value - paper_value, 10) if comparable else None,
        problems=list(dict.fromkeys(run.problem for run in readings if run.problem)),
        beside=None if number.relative else curvature.pyhessian_mean(hessians, number.metric),
        errors=curvature.largest_errors(hessians, number.metric),
        warnings=[
            *(f"{hessian.about.run}: {text}" for hessian in hessians for text in hessian.warnings_about(number.metric)),
            *dict.fromkeys(run.warning for run in readings if run.warning),
            *(f"{name}: {text}" for name, text in outdated.items()),
        ],
        timed=sorted({f"{timing.machine}, {timing.executor} executor" for timing in timings}),
        images={name: counts for record in records for name, counts in record.image_counts.items()},
        contents=dict.fromkeys(datasets, sorted({record.dataset_digest for record in records})),
        roundings={record.name: rounding(record) for record in records},
        outdated=outdated,
        lines={run.record.name: run.lines for entry in measured for run in entry.runs if run.lines},
    )
    requested = {name: value for name, value in vars(number).items() if name in Cell.__dataclass_fields__}
    return Cell(**requested | results)


def _where(number: Number) -> str:
    return f"cell {number.table}/{number.column}/{number.row}"


def of_run(metric: Metric, run: RunReading) -> float | None:
    """Return the number of one run, or None."""
    without_number = run.reading is None or run.diverged or (run.unfinished and not metric.needs_target)
    without_rounds = not without_number and metric.needs_runs and not run.reading.history["round"]
    return None if without_number or without_rounds else metric.function(run.reading)


def _best(run: RunReading) -> float | None:
    """Return the best finite accuracy of one run, or None."""
    accuracies = run.reading.history.get(run.reading.accuracy, ()) if run.reading else ()
    return max(filter(math.isfinite, accuracies), default=None)


def _mean(values: Sequence[float | None]) -> float | None:
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
            raise DataError(f"{_where(number)}: seed {number.seed}: {different}; rerun both")


def _status(values: list[float | None], readings: list[RunReading], waiting: bool) -> str:
    """Return the status of a cell; ``waiting``: an unfinished run may still get a number."""
    if not values:
        return "not_applicable"
    if any(run.reading is None for run in readings):
        return "missing"
    if any(run.diverged for run in readings):
        return "diverged"
    if all(value is not None for value in values):
        return "ok"
    return "unfinished" if waiting else "not_reached"
