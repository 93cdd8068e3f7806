"""Ours against the paper's: agreement, and the order of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flatfed.papers.metrics import METRICS
from flatfed.tables.cell import Cell

#: Tolerances of ``agreement``: a percentage point for fractions; a tenth of the printed number for the rest.
POINT, PART = 0.01, 0.1


def higher(cell: Cell) -> bool | None:
    """Return whether larger numbers are better in a cell's column, None where there is no better."""
    direction = METRICS[cell.metric].higher
    return not direction if direction is not None and cell.relative == "speedup" else direction


def one_printed(cells: Mapping[str, Cell]) -> bool:
    """Return whether the paper prints all rows of a column under one name, so that it claims one ahead of another.

    Rows without a server may show another quantity under it than the others (DFedSAM, Table 1, "Train").
    """
    return len({(METRICS[cell.metric].printed_as, cell.relative) for cell in cells.values()}) == 1


def timed(cell: Cell) -> bool:
    """Return whether a cell's number rests on seconds of a round, which are measured once and serve all seeds.

    How far they are off is known of none of its rows, so that an interval over seeds is too narrow to tell two apart.
    """
    return METRICS[cell.metric].source == "timing"


def tolerance(cell: Cell) -> float:
    """Return how far ours may be from the paper's: max(a point, 2 s / sqrt(n)), s our deviation, stored units.

    A number that is no accuracy has a tenth of the printed one in place of the point; one that no seed has a part in is
    exact. The printed spread does not count: it is not the deviation of two repeats (erratum B15).
    """
    if cell.n is None:
        return 1e-9
    floor = POINT if cell.unit == "fraction" else PART * abs(cell.paper_value)
    return max(floor, 2 * (cell.spread or 0.0) / math.sqrt(max(1, cell.n)))


def over_clients(cell: Cell) -> bool:
    """Return whether the paper's spread is over clients: it never stands beside one over seeds."""
    return "std_kind=clients" in cell.paper_note


def not_reached(cell: Cell) -> bool:
    """Return whether the paper prints that the target was not reached."""
    return cell.paper_value is None and "not reached" in cell.paper_note


def agreement(cell: Cell) -> str:
    """Return "agrees", "differs", "missing", or "" where the paper prints nothing or values are not compared."""
    if cell.status in ("missing", "unfinished"):
        return "missing"
    if cell.scale != "paper" or cell.compare != "values":
        return ""
    if not_reached(cell):
        return "agrees" if cell.status == "not_reached" else "differs"
    if cell.paper_value is None or cell.status == "not_applicable":
        return ""
    if cell.status != "ok" or cell.difference is None:
        return "differs"
    return "agrees" if abs(cell.difference) <= tolerance(cell) + 1e-12 else "differs"


def rank_correlation(cells: Mapping[str, Cell]) -> float | None:
    """Return Spearman's correlation of ours and the paper's over one column's rows.

    A target not reached ranks behind every number. None under three rows, and where one side has no order, the rows
    hold different quantities, or a quantity of which neither more nor less is better: facts are equal or not.
    """
    if not one_printed(cells) or all(higher(cell) is None for cell in cells.values()):
        return None
    pairs = [(_place(cell), printed_place(cell)) for cell in cells.values()]
    pairs = [pair for pair in pairs if None not in pair]
    if len(pairs) < 3:
        return None
    ours, theirs = zip(*pairs, strict=True)
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(ours, theirs).statistic)


def _place(cell: Cell) -> float | None:
    """Return our number, infinity for a target not reached, None where there is none."""
    return math.inf if cell.status == "not_reached" else cell.value


def printed_place(cell: Cell) -> float | None:
    """Return the printed number, infinity for a target not reached, None where nothing is printed."""
    return math.inf if not_reached(cell) else cell.paper_value
