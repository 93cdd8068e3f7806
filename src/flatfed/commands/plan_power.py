"""``flatfed plan --power``: how many seeds tell a difference between two rows from chance."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from flatfed.errors import DataError
from flatfed.papers import significance
from flatfed.papers.units import many
from flatfed.specs.cell import Cell
from flatfed.specs.table import TableSpec
from flatfed.tables import claims, effects, filled_table

#: Numbers of seeds that are shown, beside the one that is enough.
SHOWN = (6, 8, 10, 12, 15, 20)

#: The power that is wanted.
WANTED = 0.8


@dataclass(frozen=True)
class Spreads:
    """Standard deviations over so many ``seeds`` of paired differences between rows of a table, mean over its columns.

    ``of``: a spread for each pair of rows, as a fraction of the test images; ``tests``: how many pairs there are.
    """

    of: list[float]
    seeds: int
    columns: int
    tests: int


def measured(spec: TableSpec) -> Spreads | None:
    """Return the spreads of the accuracies in the cells of a table that have been made, None of too few.

    In a table of effects a row is a pair by itself.

    :raises DataError: a cell is damaged.
    """
    table = filled_table.read(spec)
    if spec.against:
        rows = [list(effect.values) for effect in effects.pooled(table)]
        return _spreads(rows, len(spec.columns), len(spec.rows))
    whole = [list(column.values()) for column in table.columns if all(map(_has_seeds, column.values()))]
    columns = [of for of in whole if [cell.seeds for cell in of] == [whole[0][0].seeds] * len(of)]
    if not columns:
        return None
    rows = [claims.means([of[place].values for of in columns]) for place in range(len(spec.rows))]
    pairs = [[x - y for x, y in zip(a, b, strict=True)] for a, b in combinations(rows, 2)]
    return _spreads(pairs, len(columns), len(pairs))


def _has_seeds(cell: Cell | None) -> bool:
    return bool(cell and cell.status == "ok" and cell.unit == "fraction" and cell.n and cell.n > 1)


def _spreads(differences: list[list[float]], columns: int, tests: int) -> Spreads | None:
    if not differences or len(differences[0]) < 2:
        return None
    return Spreads([statistics.stdev(each) for each in differences], len(differences[0]), columns, tests)


def lines(points: float, found: dict[str, Spreads], given: float | None) -> Iterator[str]:
    """Yield what it takes to tell a difference of ``points`` percentage points, by the spreads ``found`` by table.

    ``given``: a spread, in points, in place of those of tables.

    :raises DataError: there is none of either.
    """
    if given is not None:
        yield f"differences that spread by {given:g} points over seeds, as given"
        yield from _table(points, given, 1)
    for title, spreads in found.items() if given is None else ():
        of = sorted(100 * each for each in spreads.of)
        middle = statistics.median(of)
        columns = many(spreads.columns, "column")
        yield (
            f"{title}: paired differences, mean over {columns}, spread over {spreads.seeds} seeds by "
            f"{middle:.2f} points (median of {len(of)}; {of[0]:.2f} to {of[-1]:.2f})"
        )
        if spreads.seeds < significance.least_seeds():
            yield f"  a spread of {spreads.seeds} seeds is a rough estimate"
        if middle > 0:
            yield from _table(points, middle, spreads.tests)
    if given is None and not found:
        raise DataError(
            "--power: no table that was asked for has cells of two seeds or more, so that no spread is known; make "
            "them, or give it: --spread POINTS"
        )


def _table(points: float, spread: float, tests: int) -> Iterator[str]:
    """Yield the power of numbers of seeds, for one test and, where a table asks for more, for each of them by Holm."""
    size = points / spread
    yield (
        f"  a difference of {points:g} points is {size:.2g} spreads; how often it is told from chance at "
        f"{100 * significance.LEVEL:g} % (exact sign flips):"
    )
    yield "    seeds         " + "".join(f"{seeds:>7}" for seeds in SHOWN) + f"   for {100 * WANTED:g} %"
    for name, number in {"one test": 1, f"Holm, of {tests}": tests}.items():
        if number == 1 and name != "one test":
            continue
        powers = "".join(f"{100 * significance.power(seeds, size, number):6.0f}%" for seeds in SHOWN)
        enough = significance.seeds_for(size, WANTED, number)
        yield f"    {name:14}{powers}   {f'{enough} seeds' if enough else 'over 200 seeds'}"
