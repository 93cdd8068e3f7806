"""What comes out at the papers' own settings: runs, finished or not, beside the printed numbers.

A run counts for a cell if it is the run that the cell asks for at paper scale; its precision may be another, which is
shown. In a run that is not finished a target that was reached is reached, whatever the run does later, and one that was
not will take more rounds than there are; numbers of the last round wait for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from flatfed import algorithms
from flatfed.files import digest_json
from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import TEST, Metric, Reading
from flatfed.papers.units import UNITS, as_printed, signed, written
from flatfed.runs import identity
from flatfed.runs.places import RunIds, without_label
from flatfed.runs.record import RunRecord
from flatfed.specs.cell import Cell, CellSpec
from flatfed.tables import compare

#: Keys of a description in which a run may differ from the one that a cell asks for.
FREE = ("protocol", "precision")


class Bounds(NamedTuple):
    """Between which numbers a number lies, in its stored unit: both are infinite for a target that is never reached."""

    low: float
    high: float

    @property
    def never(self) -> bool:
        """Whether it is of a target that is never reached."""
        return self.low == math.inf

    @property
    def number(self) -> float | None:
        """The number, None where it is not known or there will be none."""
        return self.low if self.low == self.high != math.inf else None


#: Of a number of which nothing is known.
UNKNOWN = Bounds(-math.inf, math.inf)


@dataclass(frozen=True)
class Trained:
    """A run as far as it is: its ``record``, its lines by column, and the folder that they lie in.

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
    def precision(self) -> str:
        """The precision that its layers computed in."""
        return self.description["precision"]

    @cached_property
    def ids(self) -> RunIds:
        """Its ids, the protocol without the label of a variant."""
        return _plain_ids(self.description)

    @cached_property
    def setting(self) -> str:
        """A digest of all that decides its numbers, except its precision."""
        return _setting(self.description)


def is_described(run: Trained, description: dict[str, Any]) -> bool:
    """Return whether ``run`` is at the setting of ``description``, its precision aside."""
    return run.setting == _setting(description)


def _plain_ids(description: dict[str, Any]) -> RunIds:
    ids = RunIds.of(description)
    return replace(ids, protocol=without_label(ids.protocol))


def _setting(description: dict[str, Any]) -> str:
    return digest_json({key: value for key, value in identity.deciding_values(description).items() if key not in FREE})


@dataclass(frozen=True)
class Outcome:
    """A cell: what a paper prints, and what came out, in texts for a reader and as a ``cell`` to be compared.

    ``table``, ``column`` and ``row`` are titles. ``each`` has the bounds of every run's number; ``spec`` is what was
    asked of the cell.
    """

    table: str
    column: str
    row: str
    printed: str
    ours: str
    difference: str
    cell: Cell
    runs: list[Trained]
    each: list[Bounds]
    spec: CellSpec | None = None

    @property
    def precision(self) -> str:
        """The precision of its runs."""
        return self.runs[0].precision

    @property
    def quantity(self) -> tuple[Any, ...]:
        """What number of ours it is: the same in several tables that print it."""
        folders = tuple(run.folder for run in self.runs)
        return (self.cell.metric, self.cell.target, self.cell.unit, self.cell.paper_value, folders)

    @property
    def number(self) -> tuple[Any, ...]:
        """What printed number it is: the same in several tables, and for ours in several precisions."""
        first = min(self.runs, key=lambda run: run.ids.seed)
        return (self.cell.metric, self.cell.target, self.cell.unit, self.cell.paper_value, first.setting)

    @property
    def measured(self) -> tuple[Any, ...]:
        """What is measured, on which clients and images, in which precision: rows of it can be ahead of each other."""
        ids, cell = self.runs[0].ids, self.cell
        return (ids.protocol, ids.split, cell.metric, cell.target, cell.relative, self.precision)

    @property
    def comparable(self) -> bool:
        """Whether our number and the printed one are both known."""
        return self.cell.status == "ok" and self.cell.paper_value is not None

    @property
    def bounds(self) -> Bounds:
        """The bounds of the mean over the runs."""
        never = [bounds.never for bounds in self.each]
        if any(never) and not all(never):
            return UNKNOWN  # one seed reached what another never will: there is no mean
        return Bounds(*map(statistics.fmean, zip(*self.each, strict=True)))


def outcomes(cells: Iterable[tuple[CellSpec, tuple[str, ...]]], runs: list[Trained]) -> Iterator[Outcome]:
    """Yield what ``runs`` make of ``cells``, each a cell's specification and the titles of its table, column and row.

    There is one for each precision. There is none of a cell of which no run is there, that reads anything but lines of
    runs, that is a mean over several settings or taken against other rows, or of which nothing is printed.
    """
    by_ids: dict[RunIds, list[Trained]] = {}
    for run in runs:
        by_ids.setdefault(run.ids, []).append(run)
    for spec, titles in cells:
        if not is_read_from_a_run(spec):
            continue
        by_precision: dict[str, list[Trained]] = {}
        for asked in identity.unpack(spec.sources.descriptions):
            for run in by_ids.get(_plain_ids(asked), ()):
                if is_described(run, asked):
                    by_precision.setdefault(run.precision, []).append(run)
        for same_precision in by_precision.values():
            yield outcome_of(spec, titles, same_precision)


def is_read_from_a_run(spec: CellSpec) -> bool:
    """Return whether a cell is of lines of one run a seed, on its own, and stands beside something printed."""
    metric = METRICS[spec.metric]
    return metric.source == "runs" and not metric.several and not spec.relative and bool(spec.paper)


def outcome_of(spec: CellSpec, titles: tuple[str, ...], runs: list[Trained]) -> Outcome:
    """Return what ``runs``, seeds of one precision, make of a cell of a table, column and row with these ``titles``."""
    metric = METRICS[spec.metric]
    each = [_bounds(spec, metric, run) for run in runs]
    numbers = [bounds.number for bounds in each]
    known = None not in numbers
    cell = Cell.of(
        spec,
        unit=UNITS[spec.unit].stored,
        status="ok" if known else "not_reached" if all(bounds.never for bounds in each) else "missing",
        value=statistics.fmean(numbers) if known else None,
        spread=statistics.stdev(numbers) if known and len(numbers) > 1 else None,
        n=len(runs),
        values=numbers,
        seeds=[run.ids.seed for run in runs],
        runs=[run.folder for run in runs],
    )
    units = spec.unit, spec.paper.decimals
    printed = as_printed(cell.paper_value, cell.paper_spread, *units) or "–"
    return Outcome(
        *titles,
        printed="not reached" if compare.not_reached(cell) else printed,
        ours=_in_words(cell, runs, each),
        difference="" if cell.difference is None else signed(cell.difference, *units),
        cell=cell,
        runs=runs,
        each=each,
        spec=spec,
    )


def _bounds(spec: CellSpec, metric: Metric, run: Trained) -> Bounds:
    """Return the bounds of a run's number, by what is known of the run as yet."""
    needed = (*metric.columns, *([spec.accuracy] if metric.needs_target else []))
    if any(column not in run.history for column in needed):
        return UNKNOWN  # not measured in this run
    if not metric.needs_target and (run.diverged or not run.record.ended):
        return UNKNOWN
    declared = algorithms.made(**run.description["update"]) if metric.declares else None
    reading = Reading(spec.window, spec.target, spec.accuracy, run.history, algorithm=declared)
    number = metric.function(reading)
    if number is not None:
        return Bounds(number, number)
    if run.record.ended:
        return Bounds(math.inf, math.inf)
    accuracies = run.history[spec.accuracy]
    if not accuracies:
        return Bounds(0.0, math.inf)
    # What is counted up to a target only grows with the rounds: it will be more than if the last one had reached it.
    reached = {**run.history, spec.accuracy: [*accuracies[:-1], math.inf]}
    return Bounds(metric.function(replace(reading, target=math.inf, history=reached)), math.inf)


def _in_words(cell: Cell, runs: list[Trained], each: list[Bounds]) -> str:
    """Return our number, or what is known of it, as the page shows it."""
    unit, decimals, diverged = cell.printed_unit, cell.paper_decimals, sum(run.diverged for run in runs)
    lost = f"; {diverged} diverged" if diverged and len(runs) > 1 else ""
    if cell.value is not None:
        return written(cell.value, cell.spread, unit, decimals) + lost
    if len(runs) == 1 and diverged:
        return f"diverged in round {runs[0].record.diverged_at}"
    if cell.status == "not_reached":
        return f"not reached{lost}"
    known = [number for number in cell.values if number is not None]
    if known:
        return f"{written(statistics.fmean(known), None, unit, decimals)} of {len(known)} of {len(runs)} seeds{lost}"
    low = min(bounds.low for bounds in each)
    return (f"> {written(low, None, unit, decimals)}" if math.isfinite(low) else "not finished") + lost
