"""A paper's claims that one row beats another, and the marks of the best rows.

The tests are exact sign flips of paired differences (Fisher 1935): algorithms of one seed use the same clients, batches
and augmentation, so if two rows do not differ, both signs of each difference are equally likely. All p values are
corrected for all tests of the table (Holm 1979).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, permutations

import numpy as np

from flatfed.plan.metrics import METRICS
from flatfed.tables import compare
from flatfed.tables.cells import Cell

#: The largest p of a significant difference.
LEVEL = 0.05

#: The largest number of seeds with all patterns of signs.
MOST = 16

#: The seed of the random patterns.
SEED = 7

#: Marks of the first rows of a column.
MARKS = ("best", "second")

#: The cells of a column by row.
ByRow = Mapping[str, Cell]

#: The cells of the two rows of a claim in one column.
Pair = tuple[Cell, Cell]


@dataclass(frozen=True)
class ClaimResult:
    """The result of the published claim "``better`` beats ``worse``" over all its ``columns``.

    ``outcome``: "held clearly", "held", "not held", "reversed clearly" or "untested". ``p``: of the mean leads of the
    seeds, corrected; None if seeds cannot decide.
    """

    better: str
    worse: str
    outcome: str
    columns: int
    p: float | None = None


def results(columns: Collection[ByRow]) -> list[ClaimResult]:
    """Return the result of each claim, pooled over the columns that print it."""
    printed: dict[tuple[str, ...], list[Pair]] = defaultdict(list)
    for column in columns:
        for better, worse in claimed(column):
            quantity = METRICS[column[better].metric].printed_as, column[better].relative or ""
            printed[better, worse, *quantity].append((column[better], column[worse]))
    comparable = {claim: _comparable(pairs) for claim, pairs in printed.items()}
    leads = {claim: _leads(pairs) for claim, pairs in comparable.items()}
    ps = {claim: p for claim, pairs in comparable.items() if (p := _p(pairs, leads[claim])) is not None}
    corrected = dict(zip(ps, holm(list(ps.values())), strict=True))
    tested = []
    for claim, pairs in printed.items():
        p = corrected.get(claim)
        outcome = _outcome([lead for of_pair in leads[claim] for lead in of_pair], p, _is_exact(comparable[claim]))
        tested.append(ClaimResult(*claim[:2], outcome, len(leads[claim]) or len(pairs), p))
    return tested


def claimed(cells: ByRow) -> list[tuple[str, str]]:
    """Return the published claims (A, B), "A beats B", of one column.

    A claim is a printed accuracy more than a point ahead of another, or any other printed number ahead at all. Printed
    spreads do not count (erratum B15).
    """
    if not compare.same_quantity(cells):
        return []
    printed = {row: number for row, cell in cells.items() if (number := compare.printed_order(cell)) is not None}
    pairs = []
    for a, b in permutations(printed, 2):
        direction = compare.higher_is_better(cells[a])
        equal = direction is None or printed[a] == printed[b]  # inf - inf is NaN
        lead = 0.0 if equal else (printed[a] - printed[b]) * (1 if direction else -1)
        if lead > (compare.POINT if cells[a].unit == "fraction" else 0.0) + 1e-12:
            pairs.append((a, b))
    return pairs


def marks(columns: Collection[ByRow]) -> list[dict[str, str]]:
    """Return {row: "best" or "second"} for each column.

    A marked row has a significant lead over every row behind it. A second needs a best. Times have no marks.
    """
    orders = [_order(column) for column in columns]
    ps: dict[tuple[int, int], float] = {}
    for number, (column, order) in enumerate(zip(columns, orders, strict=True)):
        for rank in range(len(MARKS)):
            if behind := [column[row] for row in order[rank + 1 :]]:
                ps[number, rank] = max(_p_of_lead(column[order[rank]], other) for other in behind)
    significant = sorted(key for key, p in zip(ps, holm(list(ps.values())), strict=True) if p <= LEVEL)
    marked: list[dict[str, str]] = [{} for _ in columns]
    for number, rank in significant:
        if len(marked[number]) == rank:
            marked[number][orders[number][rank]] = MARKS[rank]
    return marked


def _p_of_lead(ahead: Cell, behind: Cell) -> float:
    if ahead.seeds != behind.seeds:
        return 1.0
    return sign_flip([a - b for a, b in zip(ahead.values, behind.values, strict=True)])


def too_few_seeds(columns: Collection[ByRow]) -> int | None:
    """Return the largest number of seeds if it is too small for any test, else None."""
    seeds = max((column[row].n for column in columns for row in _order(column)), default=least_seeds())
    return seeds if seeds < least_seeds() else None


def _order(cells: ByRow) -> list[str]:
    usable = (pair for pair in cells.items() if pair[1].status == "ok" and pair[1].n)
    ranked = {row: cell for row, cell in usable if not compare.indefinite(cell)}
    if len({(cell.metric, cell.relative) for cell in ranked.values()}) != 1:
        return []
    example = next(iter(ranked.values()))
    direction = compare.higher_is_better(example)
    if direction is None or compare.is_time(example):
        return []
    return sorted(ranked, key=lambda row: ranked[row].value, reverse=direction)


def _comparable(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with a number, and with the seeds of the first such pair."""
    usable = [
        (a, b)
        for a, b in pairs
        if (len(a.values), a.seeds) == (len(b.values), b.seeds)
        and {a.status, b.status} <= {"ok", "not_reached"}
        and any(value is not None for value in (*a.values, *b.values))
        and not (compare.indefinite(a) or compare.indefinite(b))
    ]
    return [(a, b) for a, b in usable if a.seeds == usable[0][0].seeds]


def _leads(pairs: Sequence[Pair]) -> list[list[float]]:
    """Return the leads of each pair, seed by seed; only their signs if some seed did not reach its target."""
    all_reached = all(None not in (*a.values, *b.values) for a, b in pairs)
    leads = []
    for pair in pairs:
        sign = 1 if compare.higher_is_better(pair[0]) else -1
        ours, other = ([-math.inf if value is None else sign * value for value in cell.values] for cell in pair)
        of_seeds = zip(ours, other, strict=True)
        leads.append([x - y if all_reached else float((x > y) - (x < y)) for x, y in of_seeds])
    return leads


def _is_exact(pairs: Sequence[Pair]) -> bool:
    return any(cell.n is None for pair in pairs for cell in pair)


def _p(pairs: Sequence[Pair], leads: list[list[float]]) -> float | None:
    """Return the p of the mean leads of the seeds; None for declared numbers and times."""
    if not pairs or _is_exact(pairs) or any(compare.is_time(a) for a, _ in pairs):
        return None
    return sign_flip([statistics.fmean(of_seed) for of_seed in zip(*leads, strict=True)])


def _outcome(leads: list[float], p: float | None, exact: bool) -> str:
    if not leads:
        return "untested"
    clear = min(leads) > 0 or max(leads) < 0 if exact else p is not None and p <= LEVEL
    mean = statistics.fmean(leads)
    if mean > 0:
        return "held clearly" if clear else "held"
    return "reversed clearly" if clear and mean < 0 else "not held"


def summary(claims: Sequence[ClaimResult]) -> str:
    """Return how many claims held, and the mean of random orders."""
    outcomes = [claim.outcome for claim in claims if claim.outcome != "untested"]
    if not outcomes:
        return f"none of {len(claims)} claims tested" if claims else "no claims"
    held, clear, reverse = map(outcomes.count, ("held", "held clearly", "reversed clearly"))
    text = f"{held + clear} of {len(outcomes)} claims held (chance gives {len(outcomes) / 2:g}; {clear} clearly"
    return text + (f", {reverse} clearly reversed)" if reverse else ")")


def least_seeds() -> int:
    """Return the least number of seeds of a significant test.

    >>> least_seeds()
    6
    """
    return next(n for n in count(1) if 2.0 ** (1 - n) <= LEVEL)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p of ``differences``, one per seed: the share of sign patterns at least as extreme.

    More than ``MOST`` seeds use 2^``MOST`` random patterns. Sums are equal if they agree to a billionth.

    :raises ValueError: a difference is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"differences are not finite: {differences}")
    slack = 1e-9 * np.abs(values).sum()
    return float((np.abs(values @ _signs(len(values))) >= abs(values.sum()) - slack).mean())


def _signs(seeds: int) -> np.ndarray:
    """Return sign patterns (seeds, patterns) that begin with +; the others are mirror images."""
    if seeds > MOST:
        signs = 2.0 * np.random.default_rng(SEED).integers(0, 2, (seeds, 1 << MOST)) - 1
        signs[:, 0] = 1  # the observed pattern
        return signs
    patterns = np.arange(1 << max(0, seeds - 1))
    return 1.0 - 2 * ((patterns >> np.arange(seeds)[:, None]) & 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p of several tests, corrected for the family-wise error rate (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(ps, kind="stable")
    corrected = np.maximum.accumulate(np.minimum(1.0, np.arange(len(ps), 0, -1) * np.take(ps, order)))
    return corrected[np.argsort(order)].tolist()
