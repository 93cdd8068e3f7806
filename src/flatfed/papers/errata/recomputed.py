"""What can be recomputed of the papers' errata from their printed numbers: one function per kind of contradiction.

A check takes the printed ``Numbers`` and the arguments that config/errata.yaml gives it, and returns a ``Finding``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from flatfed import algorithms as registry
from flatfed.papers.errata.numbers import Numbers, Row, named, printed, setting
from flatfed.papers.metrics import METRICS, Reading


@dataclass(frozen=True)
class Line:
    """One contradiction: where it is, what is printed, what it is against (another table, or what we compute)."""

    where: str
    printed: str
    against: str


@dataclass(frozen=True)
class Finding:
    """What a check found: the contradictions, of how many comparisons; what they are against, and where they stand."""

    lines: tuple[Line, ...]
    compared: int
    against: str
    said: str = "printed"


CHECKS: dict[str, Callable[..., Finding]] = {}


def check(function):
    """Enter the function into ``CHECKS`` under its own name."""
    CHECKS[function.__name__] = function
    return function


@check
def two_tables(numbers: Numbers, first: str, second: str, where: dict[str, Any] | None = None) -> Finding:
    """Compare the numbers, and spreads, that two tables print of the same setting."""
    also = ("metric", "unit", "variant", "target")
    others = {setting(row, *also): row for row in numbers.rows(second)}
    lines, compared = [], 0
    for row in numbers.rows(first, **(where or {})):
        other = others.get(setting(row, *also))
        if other is None:
            continue
        compared += 1
        if _floats(row) != _floats(other):
            lines.append(Line(named(row, "metric"), printed(row), printed(other)))
    return Finding(tuple(lines), compared, second)


@check
def train_minus_test(numbers: Numbers, table: str) -> Finding:
    """Compare each printed generalization error with train minus test accuracy."""
    lines, compared = [], 0
    for row in numbers.rows(table, metric="generalization_error"):
        same = {name: row[name] for name in ("dataset", "partition", "partition_param", "algorithm", "variant")}
        train, test = (numbers.value(table, metric=f"{kind}_accuracy", **same) for kind in ("train", "test"))
        compared += 1
        if abs(train - test - float(row["value"])) > 0.005:
            lines.append(Line(named(row), row["value"], f"{train:.2f} − {test:.2f} = {train - test:.2f}"))
    return Finding(tuple(lines), compared, "train minus test")


@check
def final_against_target(numbers: Numbers, rounds: list[str], reached: bool, accuracies: str | None = None) -> Finding:
    """Find targets that were reached although the final accuracy is below (``reached``), or the other way about.

    The final accuracies stand in table ``accuracies``, None: in the table of the rounds itself.
    """
    lines, compared = [], 0
    for table in rounds:
        finals = {setting(row): row for row in numbers.rows(accuracies or table, metric="test_accuracy")}
        for row in numbers.rows(table, metric="rounds_to_target", unit="rounds"):
            final = finals.get(setting(row))
            if final is None:
                continue
            compared += 1
            above = float(final["value"]) >= float(row["target"])
            if bool(row["value"]) == reached and above != reached:
                said = f"round {row['value']}" if reached else "not reached"
                lines.append(Line(f"{table}: {named(row)}", said, f"final {printed(final)}"))
    return Finding(tuple(lines), compared, f"final accuracy in {accuracies or 'the same table'}")


@check
def mean_of_settings(numbers: Numbers, table: str, sources: list[str]) -> Finding:
    """Compare printed means over all settings of a dataset with those of the tables they average."""
    lines, compared = [], 0
    for row in numbers.rows(table, metric="mean_test_accuracy"):
        same = {"dataset": row["dataset"], "algorithm": row["algorithm"], "metric": "test_accuracy"}
        values = [float(other["value"]) for source in sources for other in numbers.rows(source, **same)]
        compared += 1
        if abs(fmean(values) - float(row["value"])) > 0.005 + 1e-9:
            lines.append(Line(named(row), row["value"], f"{fmean(values):.4f} (of {len(values)})"))
    return Finding(tuple(lines), compared, f"mean of {' and '.join(sources)}")


@check
def gains(numbers: Numbers, table: str, bases: dict[str, str]) -> Finding:
    """Compare printed gains with the differences of the printed means."""
    lines, compared = [], 0
    for row in numbers.rows(table, metric="mean_test_accuracy_gain"):
        own, base = (
            numbers.value(table, metric="mean_test_accuracy", dataset=row["dataset"], algorithm=name)
            for name in (row["algorithm"], bases[row["algorithm"]])
        )
        compared += 1
        if abs(own - base - float(row["value"])) > 0.005 + 1e-9:
            lines.append(Line(named(row), row["value"], f"{own - base:.2f}"))
    return Finding(tuple(lines), compared, "difference of the means")


@check
def cost_of_rounds(numbers: Numbers, table: str, base: str) -> Finding:
    """Compare printed costs with rounds times model sizes sent per round (as algorithms declare), over ``base``'s."""
    same = {"metric": "rounds_to_target", "unit": "rounds"}
    whole = numbers.value(table, algorithm=base, **same)
    lines, compared = [], 0
    for row in numbers.rows(table, metric="communication_cost"):
        if row["value"]:
            sizes = max(registry.load(row["algorithm"]).communication)
            cost = sizes * numbers.value(table, algorithm=row["algorithm"], **same) / whole
            compared += 1
            if _rounded(cost, row["value"]) != float(row["value"]):
                lines.append(Line(named(row), row["value"], f"{cost:.3f}"))
    return Finding(tuple(lines), compared, "model sizes per round × rounds, over FedAvg's")


@check
def ratios(numbers: Numbers, table: str) -> Finding:
    """Compare printed speed-ups with the quotients of the printed absolute numbers."""
    lines, compared = [], 0
    for row in numbers.rows(table, unit="x"):
        metric, base = row["metric"], row["variant"].removeprefix("speedup_vs_")
        unit = "rounds" if metric == "rounds_to_target" else "s"
        own, of_base = (
            numbers.value(table, metric=metric, unit=unit, algorithm=name, target=row["target"])
            for name in (row["algorithm"], base)
        )
        compared += 1
        if _rounded(of_base / own, row["value"]) != float(row["value"]):
            lines.append(Line(named(row, "metric"), row["value"], f"{of_base / own:.4f}"))
    return Finding(tuple(lines), compared, "quotient of the printed numbers")


@check
def products(numbers: Numbers, table: str) -> Finding:
    """Compare printed total seconds with seconds per round times rounds."""
    lines, compared = [], 0
    for row in numbers.rows(table, metric="total_seconds", unit="s"):
        if row["value"]:
            own = {"algorithm": row["algorithm"]}
            each = numbers.value(table, metric="seconds_per_round", unit="s", **own)
            total = each * numbers.value(table, metric="rounds_to_target", unit="rounds", **own)
            compared += 1
            if _rounded(total, row["value"]) != float(row["value"]):
                lines.append(Line(named(row), row["value"], f"{total:.2f}"))
    return Finding(tuple(lines), compared, "seconds per round × rounds")


@check
def compute_in_wall_clock(
    numbers: Numbers, tables: list[str], base: str, wall_clock: str, within: float, algorithms: list[str] | None = None
) -> Finding:
    """Compare the wall clock of a round with what ``tables`` say of computing, and the constant that is beside it.

    ``base``'s minutes over its rounds are its computing a round; what is left of its seconds in ``wall_clock`` is taken
    to be the same for all rows, whose computing is its share of ``base``'s. Listed is what is over ``within`` seconds
    off.
    """
    seconds = {row["algorithm"]: float(row["value"]) for row in numbers.rows(wall_clock, unit="s")}
    pairs = [
        (60 * float(row["value"]), {"algorithm": base, "target": row["target"]}, table)
        for table in tables
        for row in numbers.rows(table, metric="compute_time_to_target", unit="minutes", algorithm=base)
    ]
    each = [
        total / numbers.value(table, metric="rounds_to_target", unit="rounds", **own) for total, own, table in pairs
    ]
    computing = fmean(each)
    constant = seconds[base] - computing
    lines, compared = [], 0
    for table in tables:
        for row in numbers.rows(table, metric="compute_time_to_target", unit="x"):
            name = row["algorithm"]
            if name == base or name not in seconds or (algorithms and name not in algorithms):
                continue
            compared += 1
            expected = constant + computing * float(row["value"]) / _relative_rounds(numbers, table, row, base)
            if abs(expected - seconds[name]) > within:
                lines.append(Line(f"{table}: {named(row)}", f"{seconds[name]:.2f}", f"{expected:.2f}"))
    against = f"{constant:.1f} s and {computing:.1f} s times the computing of a round over {base}'s"
    return Finding(tuple(lines), compared, against, f"seconds in {wall_clock}")


def _relative_rounds(numbers: Numbers, table: str, row: Row, base: str) -> float:
    """Return a row's rounds over those of ``base``, whether the table prints them as counts or as ratios."""
    same = {"metric": "rounds_to_target", "target": row["target"]}
    counts = {other["algorithm"]: float(other["value"]) for other in numbers.rows(table, unit="rounds", **same)}
    if row["algorithm"] in counts:
        return counts[row["algorithm"]] / counts[base]
    return numbers.value(table, unit="x", algorithm=row["algorithm"], **same)


@check
def counts_for_ratios(numbers: Numbers, table: str, base: str) -> Finding:
    """List the rounds that a table prints as counts where its other rows are ratios to ``base``."""
    lines = []
    for row in numbers.rows(table, metric="rounds_to_target", unit="rounds"):
        if row["algorithm"] != base:
            ratio = _relative_rounds(numbers, table, row, base)
            lines.append(Line(named(row), row["value"], f"{ratio:.2f}x"))
    return Finding(tuple(lines), len(lines), f"ratio to {base}")


@check
def declared_costs(numbers: Numbers, table: str, base: str) -> Finding:
    """Compare printed relative costs with what the algorithms of FlatFed declare of themselves, over ``base``'s."""
    lines, compared = [], 0
    for row in numbers.rows(table):
        metric = METRICS[row["metric"]].function
        own, of_base = (metric(Reading(algorithm=registry.load(name)())) for name in (row["algorithm"], base))
        compared += 1
        if own / of_base != float(row["value"]):
            lines.append(Line(named(row, "metric"), row["value"], f"{own / of_base:g}"))
    return Finding(tuple(lines), compared, "what the listing sends, stores and computes")


@check
def repeated_part(numbers: Numbers, table: str, algorithms: list[str] | None = None) -> Finding:
    """Find numbers, with their spreads, that stand in both parts of a table: for other clients and participation."""
    place = ("dataset", "partition_param", "algorithm")
    seen: dict[tuple[str, ...], Row] = {}
    lines, compared = [], 0
    for row in numbers.rows(table, **({"algorithm": algorithms} if algorithms else {})):
        other = seen.setdefault(tuple(row[name] for name in place), row)
        if other is row:
            continue
        compared += 1
        if _floats(row) == _floats(other):
            lines.append(Line(named(row), printed(row), f"{other['clients']} clients: {printed(other)}"))
    return Finding(tuple(lines), compared, "the other part")


@check
def second_place(numbers: Numbers, table: str, columns: list[dict[str, Any]]) -> Finding:
    """Compare the row underlined as second of a column with the second largest printed number."""
    lines = []
    for column in columns:
        fields = {name: value for name, value in column.items() if name != "underlined"}
        order = sorted(numbers.rows(table, **fields), key=lambda row: -float(row["value"]))
        marked = numbers.one(table, **fields, algorithm=column["underlined"])
        if marked is not order[1]:
            lines.append(Line(named(marked), marked["value"], f"{order[1]['algorithm']} {order[1]['value']}"))
    return Finding(tuple(lines), len(columns), "second largest number")


def _floats(row: Row) -> tuple[float | None, ...]:
    return tuple(float(row[name]) if row[name] else None for name in ("value", "std"))


def _rounded(value: float, like: str) -> float:
    """Round half up to the decimals of the printed number ``like``."""
    scale = 10 ** len(like.partition(".")[2])
    return math.floor(value * scale + 0.5 + 1e-9) / scale
