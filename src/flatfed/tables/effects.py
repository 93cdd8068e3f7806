"""What one difference does: a choice against the form it differs from, over all columns of a table, seed by seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flatfed.papers import significance
from flatfed.papers.significance import Interval
from flatfed.papers.units import many, signed
from flatfed.specs.table import TableSpec
from flatfed.tables.claims import means
from flatfed.tables.filled_table import FilledTable

#: What is said of a choice, by what its difference comes to.
DIFFERS, SAME, OPEN = "differs", "less than half a point", "open"


@dataclass(frozen=True)
class Effect:
    """A choice over all columns: ``values`` are its differences, a seed each, mean over the columns, stored unit.

    ``interval`` is Student's, 95 %; ``p`` that of the exact sign-flip test, ``corrected`` by Holm over all choices.
    """

    row: str
    label: str
    against: str
    unit: str
    values: tuple[float, ...]
    interval: Interval
    p: float
    corrected: float

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """The difference with its interval, p, p corrected, and the verdict, as they are printed."""
        return interval_text(self.interval, self.unit), p_text(self.p), p_text(self.corrected), self.verdict

    @property
    def verdict(self) -> str:
        """What can be said: it differs; the interval lies within half a point of zero; or neither."""
        if self.corrected <= significance.LEVEL:
            return DIFFERS
        return SAME if max(-self.interval.low, self.interval.high) < significance.REGION else OPEN


def pooled(table: FilledTable) -> list[Effect]:
    """Return the effect of every choice of which all cells have a number.

    Choices that lack one count among the tests, as if nothing had been found.
    """
    spec, values, units = table.spec, {}, {}
    for row in spec.rows:
        there = table.row(row.id)
        if all(cell and cell.status == "ok" and cell.n for cell in there) and len({tuple(c.seeds) for c in there}) == 1:
            values[row.id], units[row.id] = means([cell.values for cell in there]), there[0].printed_unit
    ps = {row: float(significance.sign_flip(of_row)) for row, of_row in values.items()}
    lacking = [1.0] * (len(spec.rows) - len(ps))
    corrected = dict(zip(ps, significance.holm([*ps.values(), *lacking]), strict=False))
    return [
        Effect(
            row.id,
            row.label,
            spec.against[row.id],
            units[row.id],
            tuple(values[row.id]),
            significance.interval(values[row.id]),
            ps[row.id],
            corrected[row.id],
        )
        for row in spec.rows
        if row.id in values
    ]


def interval_text(interval: Interval, unit: str) -> str:
    """Write a difference with its interval in the printed ``unit``: "+0.21 [−0.10, +0.52]"."""
    return f"{signed(interval.mean, unit)} [{signed(interval.low, unit)}, {signed(interval.high, unit)}]"


def p_text(p: float) -> str:
    """Write a p: "0.021", "<0.001"."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _scale(spec: TableSpec) -> str:
    """Name the scale; of paper scale, which may be of a set-up that is no paper's, say what it trained."""
    if spec.scale == "preview" or not spec.setting:
        return f"At {spec.scale} scale"
    return f"At {spec.scale} scale ({re.sub(r' {.+?}', '', spec.setting)})"


def sentence(table: FilledTable, found: Sequence[Effect]) -> str:
    """Say what the choices come to, at which scale: how many differ, by how much, and how many do not.

    ``found`` are those that all runs are there of; of others a run, or one it is taken against, may have diverged.
    """
    spec = table.spec
    diverged = sum(any(cell and cell.status == "diverged" for cell in table.row(row.id)) for row in spec.rows)
    choices, scale = many(len(spec.rows), "choice"), _scale(spec)
    if not found and not diverged:
        return f"{scale} none of {choices} has all its runs yet."
    over = many(len(spec.columns), "column")
    seeds = f" and {many(len(found[0].values), 'seed')}" if found else ""
    differ = sorted((one for one in found if one.verdict == DIFFERS), key=lambda one: -abs(one.interval.mean))
    points = f"{100 * significance.REGION:g}"
    named = "; ".join(f"{one.label} {signed(one.interval.mean, one.unit)}" for one in differ)
    parts = [f"{len(differ)} can be told from chance" + (f" ({named})" if named else "")]
    same = sum(one.verdict == SAME for one in found)
    parts.append(f"{same} differ{'s' * (same == 1)} by less than {points} points, if at all")
    if left := sum(one.verdict == OPEN for one in found):
        parts.append(f"of {left} neither can be said")
    if diverged:
        parts.append(f"{diverged} diverged")
    if missing := len(spec.rows) - len(found) - diverged:
        parts.append(f"{missing} lack{'s' * (missing == 1)} runs")
    return f"{scale}, over {over}{seeds}, of {choices} {'; '.join(parts)}."
