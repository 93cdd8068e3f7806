"""Rows against each other: what a paper claims, and what the seeds of a whole table can tell from chance.

A table asks many questions, so that each answer is corrected for all of them: one false claim in a table is as rare as
in a single test (:mod:`flatfed.papers.significance`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from flatfed.papers.metrics import METRICS
from flatfed.papers.significance import LEVEL, holm, least_seeds, sign_flip
from flatfed.tables import compare
from flatfed.tables.cell import Cell

#: Marks of the first rows of a column.
MARKS = ("best", "second")

#: The cells of a column by row.
ByRow = Mapping[str, Cell]


@dataclass(frozen=True)
class Answer:
    """What the published claim "``better`` beats ``worse``" comes to, over all its ``columns``.

    ``outcome``: "held clearly", "held", "not held", "reversed clearly" or "untested".
    ``p`` is of the exact sign flips of each seed's mean lead, corrected for all claims of the table; None where seeds
    cannot tell.
    """

    better: str
    worse: str
    outcome: str
    columns: int
    p: float | None = None


def answers(columns: Sequence[ByRow]) -> list[Answer]:
    """Return what the claims of a table come to, each pair of rows once: pooled over the columns that print it."""
    printed: dict[tuple[str, ...], list[tuple[Cell, Cell]]] = {}
    for column in columns:
        for better, worse in claimed(column):
            cell = column[better]
            quantity = METRICS[cell.metric].printed_as, cell.relative or ""
            printed.setdefault((better, worse, *quantity), []).append((column[better], column[worse]))
    leads = {pair: Leads.of(cells) for pair, cells in printed.items()}
    ps = {pair: of_pair.p for pair, of_pair in leads.items() if of_pair.p is not None}
    corrected = dict(zip(ps, holm(list(ps.values())), strict=True))
    return [_answer(*pair[:2], len(printed[pair]), leads[pair], corrected.get(pair)) for pair in printed]


def claimed(cells: ByRow) -> list[tuple[str, str]]:
    """Return the published claims (A, B), "A beats B", of one column.

    A claim is a printed accuracy ahead of another by more than a point, or another number ahead at all. Printed spreads
    do not count: they are not the deviation of two repeats (erratum B15).
    """
    known = {row: cell for row, cell in cells.items() if compare.printed_place(cell) is not None}
    found = []
    for (a, first), (b, second) in permutations(known.items() if compare.one_printed(cells) else (), 2):
        direction, x, y = compare.higher(first), compare.printed_place(first), compare.printed_place(second)
        lead = 0.0 if x == y or direction is None else (x - y) * (1 if direction else -1)
        if lead > (compare.POINT if first.unit == "fraction" else 0.0) + 1e-12:
            found.append((a, b))
    return found


def marks(columns: Sequence[ByRow]) -> list[dict[str, str]]:
    """Return for each column {row: "best"}, and "second", of its cells by row.

    A mark says that the row's lead over every row behind it is no chance of the seeds, corrected for all marks that the
    table could have. The second is marked only where the best is. Seconds are never marked: see
    :func:`flatfed.tables.compare.timed`.
    """
    orders = [_order(column) for column in columns]
    ps: dict[tuple[int, int], float] = {}
    for number, (column, order) in enumerate(zip(columns, orders, strict=True)):
        for place in range(len(MARKS)):
            if behind := [column[row] for row in order[place + 1 :]]:
                ps[number, place] = max(_p_of_lead(column[order[place]], other) for other in behind)
    told = sorted(key for key, p in zip(ps, holm(list(ps.values())), strict=True) if p <= LEVEL)
    found: list[dict[str, str]] = [{} for _ in columns]
    for number, place in told:
        if len(found[number]) == place:
            found[number][orders[number][place]] = MARKS[place]
    return found


def _p_of_lead(ahead: Cell, behind: Cell) -> float:
    """Return the p of the lead of one cell over another, 1 where their seeds do not pair."""
    if ahead.seeds != behind.seeds:
        return 1.0
    return sign_flip([a - b for a, b in zip(ahead.values, behind.values, strict=True)])


def too_few_seeds(columns: Sequence[ByRow]) -> int | None:
    """Return the largest number of seeds of rows that could be ordered, where it is too small for any test."""
    seeds = [column[row].n for column in columns for row in _order(column)]
    return max(seeds) if seeds and max(seeds) < least_seeds() else None


def _order(cells: ByRow) -> list[str]:
    """Return the rows that have a number of seeds, best first; none where there is no better."""
    ranked = {row: cell for row, cell in cells.items() if cell.status == "ok" and cell.n}
    quantities = {(cell.metric, cell.relative, compare.higher(cell), compare.timed(cell)) for cell in ranked.values()}
    if len(quantities) != 1:
        return []
    _, _, direction, timed = quantities.pop()
    return [] if direction is None or timed else sorted(ranked, key=lambda row: ranked[row].value, reverse=direction)


@dataclass(frozen=True)
class Leads:
    """How far one row is ahead of another: of each ``columns`` that can be compared, seed by seed.

    Where a target was not reached in any of them, only the order is known, and all are +1, 0 or -1.
    ``exact``: declared facts, which no seed has a part in. ``seeds``: whether seeds can tell a lead from chance: not of
    facts, nor of a clock that was read once.
    """

    columns: list[list[float]]
    exact: bool
    seeds: bool

    @classmethod
    def of(cls, cells: Sequence[tuple[Cell, Cell]]) -> Leads:
        """Return the leads of the first cell of each pair over the second."""
        usable = [(a, b) for a, b in cells if _comparable(a, b)]
        usable = [(a, b) for a, b in usable if a.seeds == usable[0][0].seeds]
        whole = all(None not in (*a.values, *b.values) for a, b in usable)
        columns = [
            [_lead(x, y, bool(compare.higher(a)), whole) for x, y in zip(a.values, b.values, strict=True)]
            for a, b in usable
        ]
        exact = any(one.n is None for pair in usable for one in pair)
        return cls(columns, exact, not exact and not any(compare.timed(a) for a, _ in usable))

    @property
    def p(self) -> float | None:
        """The p of each seed's mean lead, None where seeds cannot tell."""
        means = [statistics.fmean(of_seed) for of_seed in zip(*self.columns, strict=True)]
        return sign_flip(means) if means and self.seeds else None


def _comparable(a: Cell, b: Cell) -> bool:
    """Return whether two cells have the same seeds, and a number or a target that was reached by one."""
    same = (len(a.values), a.seeds) == (len(b.values), b.seeds) and {a.status, b.status} <= {"ok", "not_reached"}
    return same and any(value is not None for value in (*a.values, *b.values))


def _lead(a: float | None, b: float | None, higher: bool, whole: bool) -> float:
    """Return how far a is ahead of b; where numbers are not ``whole``, only whether: None is behind every number."""
    if whole:
        return a - b if higher else b - a
    x, y = ((value if higher else -value) if value is not None else -math.inf for value in (a, b))
    return float((x > y) - (x < y))


def _answer(better: str, worse: str, printed: int, leads: Leads, p: float | None) -> Answer:
    """Return what one claim, printed in so many columns, comes to."""
    if not leads.columns:
        return Answer(better, worse, "untested", printed)
    each = [lead for column in leads.columns for lead in column]
    mean = statistics.fmean(each)
    clear = p is not None and p <= LEVEL
    if leads.exact:
        clear = min(each) > 0 or max(each) < 0
    if mean > 0:
        outcome = "held clearly" if clear else "held"
    else:
        outcome = "reversed clearly" if clear and mean < 0 else "not held"
    return Answer(better, worse, outcome, len(leads.columns), p)


def counted(found: Sequence[Answer]) -> str:
    """Return how many claims hold, beside how many would if the rows were ordered by chance."""
    tested = [answer for answer in found if answer.outcome != "untested"]
    if not tested:
        return f"none of {len(found)} claims tested" if found else "no claims"
    held = sum(answer.outcome.startswith("held") for answer in tested)
    clear = sum(answer.outcome == "held clearly" for answer in tested)
    turned = sum(answer.outcome == "reversed clearly" for answer in tested)
    text = f"{held} of {len(tested)} claims held (chance gives {len(tested) / 2:g}; {clear} clearly"
    return text + (f", {turned} clearly reversed)" if turned else ")")
