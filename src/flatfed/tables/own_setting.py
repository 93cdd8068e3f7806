"""What comes out at the papers' own settings: runs, finished or not, beside the printed numbers.

A run counts for a cell if it is of the run that the cell asks for at paper scale; its precision may be another, and is
said. Of a run that is not finished, a target that was reached is reached, whatever the run does later, and one that was
not will take more rounds than there are; numbers of the last round wait for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flatfed.files import digest_json
from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import TEST, Metric, Reading
from flatfed.papers.units import UNITS, as_printed, signed, written
from flatfed.runs import identity
from flatfed.runs.record import RunRecord
from flatfed.specs.cell import Cell, CellSpec
from flatfed.tables import compare, readings

#: Keys of a description in which a run may differ from the one that a cell asks for.
FREE = ("protocol", "precision")

#: Bounds of what is not known at all.
UNKNOWN = (-math.inf, math.inf)


@dataclass(frozen=True)
class Trained:
    """A run as far as it is: its ``record``, its lines by column, and where they lie.

    ``accuracy``: the column that its protocol holds targets against, and that its last and best are of.
    """

    record: RunRecord
    history: Mapping[str, list[float]]
    folder: str = ""
    accuracy: str = TEST

    @property
    def description(self) -> dict[str, Any]:
        """The run description."""
        return self.record.description

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return self.record.rounds_done

    @property
    def diverged(self) -> bool:
        """Whether it ended because its numbers stopped being finite."""
        return self.record.diverged_at is not None

    @property
    def whole(self) -> bool:
        """Whether there is nothing more to come."""
        return self.record.ended

    @property
    def precision(self) -> str:
        """What its layers computed in."""
        return self.description["precision"]

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.description["seed"]

    @cached_property
    def ids(self) -> tuple[str, str, str, int]:
        """Protocol without the label of a variant, split, algorithm, seed."""
        return _ids(self.description)

    @cached_property
    def setting(self) -> str:
        """A digest of all that decides its numbers, but for its precision."""
        return _setting(self.description)


def _ids(description: dict[str, Any]) -> tuple[str, str, str, int]:
    return (description["protocol"].partition("~")[0], *(description[key] for key in ("split", "algorithm", "seed")))


def _setting(description: dict[str, Any]) -> str:
    return digest_json({key: value for key, value in identity.deciding_values(description).items() if key not in FREE})


@dataclass(frozen=True)
class Outcome:
    """A cell: what a paper prints, and what came out, in texts for a reader and as a ``cell`` to be compared.

    ``table``, ``column`` and ``row`` are titles. ``each`` has for every run between which bounds its number lies, in
    the stored unit; equal where it is known.
    """

    table: str
    column: str
    row: str
    printed: str
    ours: str
    difference: str
    cell: Cell
    runs: list[Trained]
    each: list[tuple[float, float]] = field(default_factory=list)

    @property
    def precision(self) -> str:
        """The precision of its runs."""
        return self.runs[0].precision

    @property
    def quantity(self) -> tuple[Any, ...]:
        """What number it is: the same in several tables that print it."""
        of = tuple(run.folder for run in self.runs)
        return (self.cell.metric, self.cell.target, self.cell.unit, self.cell.paper_value, of)

    @property
    def known(self) -> bool:
        """Whether our number is known."""
        return self.cell.status == "ok"

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which numbers the mean over the runs lies: the same twice where it is known."""
        if all(low == math.inf for low, _ in self.each):
            return math.inf, math.inf
        if any(low == math.inf for low, _ in self.each):
            return UNKNOWN  # one seed reached what another never will: there is no mean
        low, high = (statistics.fmean(side) for side in zip(*self.each, strict=True))
        return low, high


def outcomes(cells: Iterable[tuple[CellSpec, tuple[str, ...]]], runs: list[Trained]) -> Iterator[Outcome]:
    """Yield what ``runs`` make of ``cells``, each a cell's specification and the titles of its table, column and row.

    One a precision. Cells of which no run is there, that read anything but lines of runs, that are means over several
    settings or taken against other rows, or of which nothing is printed, have none.
    """
    named: dict[tuple[Any, ...], list[Trained]] = {}
    for run in runs:
        named.setdefault(run.ids, []).append(run)
    for spec, titles in cells:
        metric = METRICS[spec.metric]
        if metric.source != "runs" or metric.several or spec.relative or not spec.paper:
            continue
        able = []
        for asked in identity.unpack(spec.sources.descriptions):
            able += [run for run in named.get(_ids(asked), ()) if run.setting == _setting(asked)]
        for precision in dict.fromkeys(run.precision for run in able):
            yield _outcome(spec, metric, titles, [run for run in able if run.precision == precision])


def _outcome(spec: CellSpec, metric: Metric, titles: tuple[str, ...], runs: list[Trained]) -> Outcome:
    printed, unit = spec.paper, spec.unit
    value, spread = printed.stored(unit)
    each = [_number(spec, metric, run) for run in runs]
    numbers = [low if low == high != math.inf else None for low, high in each]
    found = [number for number in numbers if number is not None]
    known = len(found) == len(numbers)
    mean = statistics.fmean(found) if known else None
    cell = Cell(
        table=spec.table,
        column=spec.column,
        row=spec.row,
        scale="paper",
        metric=spec.metric,
        unit=UNITS[unit].stored,
        printed_unit=unit,
        relative=None,
        status="ok" if known else "not_reached" if all(low == math.inf for low, _ in each) else "missing",
        value=mean,
        spread=statistics.stdev(found) if known and len(found) > 1 else None,
        n=len(runs),
        values=numbers,
        target=spec.target,
        seeds=[run.seed for run in runs],
        runs=[run.folder for run in runs],
        paper_value=value,
        paper_spread=spread,
        paper_decimals=printed.decimals,
        paper_note=printed.note or "",
        difference=mean - value if known and value is not None else None,
        compare="values",
    )
    return Outcome(
        *titles,
        printed="not reached"
        if compare.not_reached(cell)
        else as_printed(value, spread, unit, printed.decimals) or "–",
        ours=_said(cell, runs, each),
        difference="" if cell.difference is None else signed(cell.difference, unit, printed.decimals),
        cell=cell,
        runs=runs,
        each=each,
    )


def _number(spec: CellSpec, metric: Metric, run: Trained) -> tuple[float, float]:
    """Return the bounds of a run's number: as yet, for ever, or both infinite for a target that is not reached."""
    needed = (*metric.columns, *([spec.accuracy] if metric.needs_target else []))
    if any(column not in run.history for column in needed):
        return UNKNOWN  # not measured in this run
    declared = readings.declared(**run.description["update"]) if metric.declares else None
    reading = Reading(spec.window, spec.target, spec.accuracy, run.history, algorithm=declared)
    if not metric.needs_target:
        if not run.whole or run.diverged:
            return UNKNOWN
        number = metric.function(reading)
        return number, number
    number = metric.function(reading)
    if number is not None:
        return number, number
    if run.whole:
        return math.inf, math.inf
    accuracies = run.history[spec.accuracy]
    if not accuracies:
        return 0.0, math.inf
    # What is counted up to a target only grows with the rounds: it will be more than it is now.
    reached = {**run.history, spec.accuracy: [*accuracies[:-1], math.inf]}
    return metric.function(replace(reading, target=math.inf, history=reached)), math.inf


def _said(cell: Cell, runs: list[Trained], each: list[tuple[float, float]]) -> str:
    """Write our number, or what is known of it."""
    unit, decimals, diverged = cell.printed_unit, cell.paper_decimals, sum(run.diverged for run in runs)
    lost = f"; {diverged} diverged" if diverged and len(runs) > 1 else ""
    if cell.value is not None:
        return written(cell.value, cell.spread, unit, decimals) + lost
    if len(runs) == 1 and diverged:
        return f"diverged in round {runs[0].record.diverged_at}"
    if cell.status == "not_reached":
        return f"not reached{lost}"
    there = [number for number in cell.values if number is not None]
    if there:
        return f"{written(statistics.fmean(there), None, unit, decimals)} of {len(there)} of {len(runs)} seeds{lost}"
    low = min(low for low, _ in each)
    return (f"> {written(low, None, unit, decimals)}" if math.isfinite(low) else "not finished") + lost


@dataclass(frozen=True)
class Order:
    """How many of the pairs of rows of which one is printed ahead stand so here, and how many can be told by now."""

    held: int
    told: int
    claimed: int


def order(found: list[Outcome]) -> Order:
    """Return how the printed order of rows comes out, in each column of each table, among runs of one precision.

    The pairs are :func:`flatfed.tables.compare.claims`; what several tables print of the same two runs counts once. One
    can be told where both have the same seeds and the bounds of their means do not meet.
    """
    columns: dict[tuple[str, str, str], dict[str, Outcome]] = {}
    for one in found:
        columns.setdefault((one.cell.table, one.cell.column, one.precision), {})[one.cell.row] = one
    pairs: dict[tuple[Any, ...], tuple[Outcome, Outcome]] = {}
    for rows in columns.values():
        for ahead, behind in compare.claims({row: one.cell for row, one in rows.items()}):
            pairs[rows[ahead].quantity, rows[behind].quantity] = rows[ahead], rows[behind]
    held = told = 0
    for ahead, behind in pairs.values():
        if ahead.cell.seeds != behind.cell.seeds:
            continue
        (low, high), (other_low, other_high) = ahead.bounds, behind.bounds
        above, below = low > other_high, high < other_low
        told += above or below
        held += above if compare.higher(ahead.cell) else below
    return Order(held, told, len(pairs))


def side(one: Outcome) -> str:
    """Return whether our number "agrees" with the printed one, as ``flatfed verify`` has it, is "better" or "worse"."""
    if compare.agreement(one.cell) == "agrees":
        return "agrees"
    return "better" if (one.cell.difference > 0) == bool(compare.higher(one.cell)) else "worse"
