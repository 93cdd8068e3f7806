"""What comes out at the papers' own settings: runs, finished or not, beside the printed numbers.

A run counts for a cell if it is of the run that the cell asks for at paper scale; its precision may be another, and is
said. Of a run that is not finished, a target that was reached is reached, whatever the run does later, and one that was
not will take more rounds than there are; numbers of the last round wait for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flatfed.runs import identity
from flatfed.tables.compare import over_clients
from flatfed.tables.metrics import METRICS
from flatfed.tables.quantity import Metric, Reading
from flatfed.tables.units import UNITS, as_printed, signed, written

#: Keys of a description in which a run may differ from the one that a cell asks for.
FREE = ("protocol", "precision")

#: Bounds of what is not known at all.
UNKNOWN = (-math.inf, math.inf)


@dataclass(frozen=True)
class Trained:
    """A run as far as it is: its ``record`` and its lines by column."""

    record: dict[str, Any]
    history: Mapping[str, list[float]]

    @property
    def description(self) -> dict[str, Any]:
        """The run description."""
        return self.record["description"]

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return self.record["rounds_done"]

    @property
    def whole(self) -> bool:
        """Whether there is nothing more to come."""
        return self.record["diverged_at"] is not None or self.rounds >= self.description["rounds"]

    @property
    def precision(self) -> str:
        """What its layers computed in."""
        return self.description["precision"]

    @property
    def processor(self) -> str:
        """What it was made on: the GPU, or the CPU."""
        host = self.record["host"]
        return (host["gpu"] if self.record["device"] == "cuda" else None) or host["processor"] or "?"

    @property
    def hours(self) -> float:
        """Hours that it took, those of all its sessions."""
        return self.record["seconds"] / 3600

    def serves(self, wanted: dict[str, Any]) -> bool:
        """Return whether it is of the run that ``wanted`` describes, precision aside."""
        found = identity.differences(identity.decided(self.description), identity.decided(wanted))
        return all(key in FREE for key, _, _ in found)


@dataclass(frozen=True)
class Outcome:
    """A cell: what the paper prints, what came out, and between which ``bounds`` ours lies, in the stored unit.

    ``quantity`` is its metric, target and printed unit; ``title``, ``column`` and ``row`` are for a reader.
    ``bounds`` are equal where it is known. ``better``: whether higher is (True), lower (False), or neither (None).
    ``paper`` is the printed number in the stored unit, infinite where it says that a target was not reached, with its
    ``spread``.
    """

    table: str
    title: str
    column: str
    row: str
    algorithm: str
    quantity: tuple[str, float | None, str]
    printed: str
    ours: str
    difference: str
    paper: float | None
    spread: float
    bounds: tuple[float, float]
    better: bool | None
    runs: list[Trained] = field(default_factory=list)

    @property
    def precision(self) -> str:
        """The precision of its runs."""
        return self.runs[0].precision

    @property
    def target(self) -> float | None:
        """The accuracy that rounds are counted to, as a fraction; None where there is none."""
        return self.quantity[1]

    @property
    def unit(self) -> str:
        """The printed unit."""
        return self.quantity[2]

    @property
    def known(self) -> bool:
        """Whether our number is known."""
        return self.bounds[0] == self.bounds[1] != math.inf


def outcomes(cells: Iterable[tuple[dict[str, Any], tuple[str, ...]]], runs: list[Trained]) -> Iterator[Outcome]:
    """Yield what ``runs`` make of ``cells``, each a cell's specification and the titles of its table, column and row.

    One a precision. Cells of which no run is there, that read anything but lines of runs, that are taken against other
    rows, or of which nothing is printed, have none.
    """
    named: dict[tuple[Any, ...], list[Trained]] = {}
    for run in runs:
        named.setdefault(_ids(run.description), []).append(run)
    for spec, titles in cells:
        metric = METRICS[spec["metric"]]
        if metric.source != "runs" or metric.several or spec.get("relative") or not spec["paper"]:
            continue
        asked = identity.unpack(spec["descriptions"])
        able = [run for wanted in asked for run in named.get(_ids(wanted), ()) if run.serves(wanted)]
        for precision in dict.fromkeys(run.precision for run in able):
            these = [run for run in able if run.precision == precision]
            yield _outcome(spec, metric, titles, these)


def _ids(description: dict[str, Any]) -> tuple[Any, ...]:
    return (
        *(description["protocol"].partition("~")[0], description["split"], description["algorithm"]),
        description["seed"],
    )


def _outcome(spec: dict[str, Any], metric: Metric, titles: tuple[str, ...], runs: list[Trained]) -> Outcome:
    printed, unit = spec["paper"], spec["unit"]
    note, decimals = printed.get("note") or "", printed.get("decimals")
    value, spread = (None if printed.get(key) is None else printed[key] / UNITS[unit][1] for key in ("value", "spread"))
    unreached = value is None and "not reached" in note
    numbers = [_number(spec, metric, run) for run in runs]
    low, high = (statistics.fmean(side) for side in zip(*numbers, strict=True)) if runs else UNKNOWN
    ours = _said(spec, runs, numbers)
    known = low == high != math.inf
    return Outcome(
        **{"table": spec["table"], "algorithm": spec["row"], "quantity": (spec["metric"], spec["target"], unit)},
        **dict(zip(("title", "column", "row"), titles, strict=True)),
        printed="not reached" if unreached else as_printed(value, spread, unit, decimals) or "–",
        ours=ours,
        difference=signed(low - value, unit, decimals) if known and value is not None else "",
        paper=math.inf if unreached else value,
        spread=0.0 if over_clients({"paper_note": note}) else spread or 0.0,
        bounds=(low, high),
        better=metric.higher,
        runs=runs,
    )


def _number(spec: dict[str, Any], metric: Metric, run: Trained) -> tuple[float, float]:
    """Return the bounds of a run's number: as yet, for ever, or both infinite for a target that is not reached."""
    if not metric.needs_target:
        if not run.whole or run.record["diverged_at"] is not None:
            return UNKNOWN
        number = metric.function(Reading(window=spec["window"], history=run.history))
        return number, number
    number = metric.function(Reading(target=spec["target"], history=run.history))
    if number is not None:
        return number, number
    if run.whole:
        return math.inf, math.inf
    # What is counted up to a target only grows with the rounds: it will be more than it is now.
    reached = {**run.history, "test_accuracy": [*run.history["test_accuracy"][:-1], 1.0]}
    now = metric.function(Reading(target=1.0, history=reached)) if run.history["round"] else 0.0
    return now, math.inf


def _said(spec: dict[str, Any], runs: list[Trained], numbers: list[tuple[float, float]]) -> str:
    """Write our number, or what is known of it."""
    unit, decimals = spec["unit"], spec["paper"].get("decimals")
    if all(low == high != math.inf for low, high in numbers):
        found = [low for low, _ in numbers]
        spread = statistics.stdev(found) if len(found) > 1 else None
        return written(statistics.fmean(found), spread, unit, decimals)
    if len(numbers) > 1:
        return f"{sum(low == high != math.inf for low, high in numbers)} of {len(numbers)} seeds have it"
    if runs[0].record["diverged_at"] is not None:
        return f"diverged in round {runs[0].record['diverged_at']}"
    low = numbers[0][0]
    if low == math.inf:
        return "not reached"
    return f"> {written(low, None, unit, decimals)}" if math.isfinite(low) else "not finished"


@dataclass(frozen=True)
class Order:
    """How many of the pairs of rows of which one is printed ahead stand so here, and how many can be told by now."""

    held: int
    told: int
    claimed: int


def order(found: list[Outcome]) -> Order:
    """Return how the printed order of rows comes out, in each column of each table, among runs of one precision.

    A pair is one of rows printed apart by more than their spreads; it can be told where the bounds of ours do not meet.
    """
    held = told = claimed = 0
    for a in found:
        for b in found:
            if a is b or (a.table, a.column, a.precision) != (b.table, b.column, b.precision) or a.better is None:
                continue
            if a.paper is None or b.paper is None or a.paper == b.paper:
                continue
            lead = a.paper - b.paper if a.better else b.paper - a.paper
            if lead <= a.spread + b.spread + 1e-12:
                continue
            claimed += 1
            (low, high), (other_low, other_high) = a.bounds, b.bounds
            above, below = low > other_high, high < other_low
            told += above or below
            held += above if a.better else below
    return Order(held, told, claimed)
