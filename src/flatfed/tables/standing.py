"""How what came out at the papers' own settings stands to print: each number, and the order of rows."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from flatfed.tables import claims, compare
from flatfed.tables.own_setting import Outcome

#: How two rows that are printed one before the other stand here.
AS_PRINTED, TIE, REVERSED = "as printed", "a tie", "reversed"


class Pair(NamedTuple):
    """Two rows, ``ahead`` printed before ``behind``; ``stands``: how they do here, None where it cannot be told."""

    ahead: Outcome
    behind: Outcome
    stands: str | None


def pairs(found: list[Outcome]) -> list[Pair]:
    """Return how the printed order comes out among runs of one set-up and precision, whichever tables print them.

    The pairs are :func:`flatfed.tables.claims.claimed`; what several tables print of the same two runs counts once. One
    can be told where both have the same seeds, and the bounds of their means do not meet or are one number.
    """
    columns: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Outcome]]] = {}
    for outcome in found:
        columns.setdefault(outcome.measured, {}).setdefault(outcome.quantity, []).append(outcome)
    claimed = (
        _together(column[ahead], column[behind])
        for column in columns.values()
        for ahead, behind in claims.claimed({quantity: same[0].cell for quantity, same in column.items()})
        if column[ahead][0].runs != column[behind][0].runs
    )
    return [Pair(ahead, behind, _stands(ahead, behind)) for ahead, behind in claimed]


def _stands(ahead: Outcome, behind: Outcome) -> str | None:
    above, below = ahead.bounds.low > behind.bounds.high, ahead.bounds.high < behind.bounds.low
    if ahead.cell.seeds != behind.cell.seeds:
        return None
    if above or below:
        return AS_PRINTED if above == bool(compare.higher(ahead.cell)) else REVERSED
    return TIE if ahead.bounds.number is not None and ahead.bounds == behind.bounds else None


def _together(ahead: list[Outcome], behind: list[Outcome]) -> tuple[Outcome, Outcome]:
    """Return one of each, of one table where a table has both."""
    both = list(itertools.product(ahead, behind))
    return next((pair for pair in both if pair[0].table == pair[1].table), both[0])


def side(outcome: Outcome) -> str:
    """Return on which side of the printed number ours is: "agrees", as ``flatfed verify`` has it, "better", "worse".

    "" where that cannot be told yet: a target that was not reached in fewer rounds than are printed. One that takes
    more than is printed is "worse", whatever it will come to.
    """
    cell, number = outcome.cell, outcome.cell.value
    if compare.not_reached(cell):
        return {"not_reached": "agrees", "ok": "better"}.get(cell.status, "")
    if cell.paper_value is None:
        return ""
    if number is None and outcome.bounds.low > cell.paper_value:
        number = outcome.bounds.low
    if number is None:
        return ""
    if abs(number - cell.paper_value) <= compare.tolerance(cell, compare.POINT) + 1e-12:
        return "agrees" if cell.value is not None else ""
    return "better" if (number > cell.paper_value) == bool(compare.higher(cell)) else "worse"
