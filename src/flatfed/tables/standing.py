"""How what came out at the papers' own settings stands to print: each number, and the order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatfed.tables import claims, compare
from flatfed.tables.own_setting import Outcome


@dataclass(frozen=True)
class Order:
    """Of ``claimed`` pairs of rows, one printed ahead, those that can be told by now: which hold, and which do not."""

    held: list[tuple[Outcome, Outcome]]
    reversed_: list[tuple[Outcome, Outcome]]
    claimed: int

    @property
    def told(self) -> int:
        """How many pairs can be told."""
        return len(self.held) + len(self.reversed_)


def order(found: list[Outcome]) -> Order:
    """Return how the printed order comes out among runs of one set-up and precision, whichever tables print them.

    The pairs are :func:`flatfed.tables.claims.claimed`; what several tables print of the same two runs counts once. One
    can be told where both have the same seeds and the bounds of their means do not meet.
    """
    columns: dict[tuple[Any, ...], dict[tuple[Any, ...], Outcome]] = {}
    for outcome in found:
        columns.setdefault(outcome.measured, {})[outcome.quantity] = outcome
    pairs = [
        (column[ahead], column[behind])
        for column in columns.values()
        for ahead, behind in claims.claimed({quantity: outcome.cell for quantity, outcome in column.items()})
        if column[ahead].runs != column[behind].runs
    ]
    held, reversed_ = [], []
    for ahead, behind in pairs:
        if ahead.cell.seeds != behind.cell.seeds:
            continue
        above, below = ahead.bounds.low > behind.bounds.high, ahead.bounds.high < behind.bounds.low
        if above or below:
            (held if above == bool(compare.higher(ahead.cell)) else reversed_).append((ahead, behind))
    return Order(held, reversed_, len(pairs))


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
