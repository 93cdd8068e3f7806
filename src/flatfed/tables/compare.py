"""Compares our numbers with the paper's: agreement of cells, order of rows."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from flatfed.plan.units import RELATIVES, as_printed, plural, signed, written
from flatfed.tables.cells import Cell, FilledTable

#: Tolerances: a percentage point for fractions, else a share of the printed number.
POINT, PART = 0.01, 0.1

#: States of cells that are compared with a printed number, from the best.
JUDGED = ("agrees", "near", "differs")


def higher_is_better(cell: Cell) -> bool | None:
    """Return whether larger numbers are better in a cell's column; None: neither."""
    direction = cell.metric.higher
    reversed_ = cell.number.relative and RELATIVES[cell.number.relative].reverses
    return not direction if direction is not None and reversed_ else direction


def same_quantity(cells: Mapping[str, Cell]) -> bool:
    """Return whether the paper prints all rows of a column as one quantity, so that it claims an order.

    Their metrics may differ (DFedSAM, Table 1, "Train").
    """
    return len({(cell.metric.printed_as, cell.number.relative) for cell in cells.values()}) == 1


def is_time(cell: Cell) -> bool:
    """Return whether a cell depends on timed rounds: timed once for all seeds, so seeds do not show their error."""
    return cell.metric.source == "timing"


def indefinite(cell: Cell) -> bool:
    """Return whether the Hessian of a seed has a negative trace or top eigenvalue: it does not measure flatness."""
    signed = cell.number.relative != "difference" and cell.metric.source == "hessian"
    return signed and any(value is not None and value < 0 for value in (*cell.values, *cell.base_values))


def best_rows(cells: Mapping[str, Cell]) -> set[str]:
    """Return the rows of a column with the best mean over seeds; none for times, or if one row alone has a mean."""
    means = {row: cell for row, cell in cells.items() if cell.status == "ok" and cell.n and not indefinite(cell)}
    if len(means) < 2 or len({(cell.metric, cell.number.relative) for cell in means.values()}) > 1:
        return set()
    example = next(iter(means.values()))
    higher = higher_is_better(example)
    if higher is None or is_time(example):
        return set()
    best = (max if higher else min)(cell.value for cell in means.values())
    return {row for row, cell in means.items() if cell.value == best}


def order(columns: Iterable[Mapping[str, Cell]]) -> str:
    """Return the mean of :func:`rank_correlation` over ``columns``, in words, or ""."""
    correlations = [number for column in columns if (number := rank_correlation(column)) is not None]
    if not correlations:
        return ""
    over = "" if len(correlations) == 1 else f", mean of {len(correlations)} columns"
    mean = round(statistics.fmean(correlations), 2) + 0.0  # no "-0.00"
    return f"rank correlation with the paper's order {mean:.2f}{over}"


def tolerances(cell: Cell) -> tuple[float, float]:
    """Return the largest differences, in stored units, that agree with the paper and that are near.

    A table's ``tolerance`` is in points of accuracy, or in percent of the printed number. The default is
    max(``POINT``, 2 s / sqrt(n)) for both, s our deviation; ``PART`` of the printed number replaces the point for other
    units; numbers without seeds are exact.
    """
    scale = 1.0 if cell.unit == "fraction" else abs(cell.paper[0])
    if tolerance := cell.document.tolerance:
        return tolerance.agrees * scale / 100, tolerance.near * scale / 100
    if cell.n is None:
        return 1e-9, 1e-9
    floor = scale * (POINT if cell.unit == "fraction" else PART)
    bound = max(floor, 2 * (cell.spread or 0.0) / math.sqrt(max(1, cell.n)))
    return bound, bound


def spread_over_seeds(cell: Cell) -> float | None:
    """Return the paper's spread, None if it is over clients."""
    return None if "std_kind=clients" in cell.paper_note else cell.paper[1]


def not_reached(cell: Cell) -> bool:
    """Return whether the paper prints "not reached"."""
    return cell.paper[0] is None and "not reached" in cell.paper_note


def agreement(cell: Cell) -> str:
    """Return "agrees", "near", "differs", "missing", or "" if nothing is printed or compared."""
    if cell.status in ("missing", "unfinished"):
        return "missing"
    own_base = cell.number.relative and cell.row == cell.number.base  # its ratio is 1 by construction
    if cell.document.compare != "values" or {*cell.flags} & {*cell.document.not_judged} or own_base:
        return ""
    if not_reached(cell):
        return "agrees" if cell.status == "not_reached" else "differs"
    if cell.paper[0] is None or cell.status == "not_applicable":
        return ""
    if cell.status != "ok" or cell.difference is None:
        return "differs"
    bounds = zip(("agrees", "near"), tolerances(cell), strict=True)
    return next((name for name, bound in bounds if abs(cell.difference) <= bound + 1e-12), "differs")


def rank_correlation(cells: Mapping[str, Cell]) -> float | None:
    """Return Spearman's correlation of our numbers and the paper's over the rows of one column.

    Targets that are not reached rank last; indefinite Hessians have no rank. None for fewer than three rows, rows
    without a common order, or equal numbers.
    """
    if not same_quantity(cells) or all(higher_is_better(cell) is None for cell in cells.values()):
        return None
    ranked = [cell for cell in cells.values() if not indefinite(cell)]
    pairs = [(math.inf if cell.status == "not_reached" else cell.value, printed_order(cell)) for cell in ranked]
    pairs = [pair for pair in pairs if None not in pair]
    if len(pairs) < 3 or any(len({*numbers}) == 1 for numbers in zip(*pairs, strict=True)):
        return None
    return float(pd.DataFrame(pairs).rank().corr().iloc[0, 1])


def printed_order(cell: Cell) -> float | None:
    """Return the printed number, infinity for "not reached", None without one."""
    return math.inf if not_reached(cell) else cell.paper[0]


def with_paper(table: FilledTable) -> tuple[list[str], bool]:
    """Return the lines of a comparison, and whether all printed numbers agree.

    Preview scale does not agree; a table without printed numbers does.
    """
    shown = table.shown
    name = f"{shown.id}, {shown.scale} scale"
    if shown.scale == "preview" and shown.document.reference != "none":
        return [f"{name}: a preview is not compared with the paper"], False
    if not shown.paper:
        return [f"{name}: no printed numbers"], True
    states = {(cell.column, cell.row): agreement(cell) for cell in table.cells if cell.printed}
    counts = Counter(states.values())
    agree, differ = (f"{counts[f'{verb}s']} {verb}{'s' * (counts[f'{verb}s'] == 1)}" for verb in ("agree", "differ"))
    parts = [f"{agree}, {counts['near']} near, {differ}"]
    if shown.document.compare != "values":
        parts = ["values are not compared (another set-up)"]
    elif counts[""]:
        parts.append(f"{counts['']} not judged")
    texts = [", ".join([*parts, f"{counts['missing']} missing"]), *filter(None, [order(table.by_column.values())])]
    lines = [f"{name}: {plural(len(states), 'cell')}: {'; '.join(texts)}"]
    for cell in table.cells:
        state = states.get((cell.column, cell.row))
        if state in ("near", "differs"):
            lines.append(f"  {state:8} {cell.column}, {cell.row}: {_difference(cell)}")
    lines += _missing([cell for cell in table.cells if cell.printed])
    return lines, counts["agrees"] == sum(counts[state] for state in JUDGED) and not counts["missing"]


def _missing(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line for each column and cause of missing ``cells``, and the seeds that all cells with runs have."""
    causes: dict[tuple[str, str], list[Cell]] = {}
    finished, incomplete = [], False
    for cell in cells:
        runs = [(entry.number.seed, *entry.runs, *entry.base_runs) for entry in cell.measured]
        finished.append({seed for seed, *readings in runs if seed and all(run.reading for run in readings)})
        if agreement(cell) == "missing":
            cause = (cell.problems or ["no run"])[0].partition(" ")[2]  # after the path of a run
            causes.setdefault((cell.column, cause), []).append(cell)
            incomplete = incomplete or bool(finished[-1])
    for (column, _), alike in causes.items():
        first, *others = dict.fromkeys(problem for cell in alike for problem in cell.problems or ["no run"])
        more = f" (and {len(others)} more)" if others else ""
        yield f"  missing  {column}, {', '.join(cell.row for cell in alike)}: {first}{more}"
    common = set.intersection(*filter(None, finished)) if incomplete else set()
    if common:
        yield f"  remedy   --config seeds=[{','.join(map(str, sorted(common)))}] compares the finished seeds"


def _difference(cell: Cell) -> str:
    unit, decimals = cell.printed_unit, cell.decimals
    ours = written(cell.value, cell.spread, unit, decimals) or cell.status.replace("_", " ")
    paper = as_printed(cell.paper[0], spread_over_seeds(cell), unit, decimals) or "–"
    reason = "only one of them is a number"
    if cell.difference is not None:
        ours += "" if cell.n is None else f" (n = {cell.n})"
        reason = f"{signed(cell.difference, unit, decimals)}, allowed {written(tolerances(cell)[0], None, unit)}"
    return f"ours {ours}, paper {paper}: {reason}"
