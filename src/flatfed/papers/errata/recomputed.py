"""What can be recomputed of the papers' errata from their printed numbers: one function per kind of contradiction.

A check takes the printed ``Numbers`` and the arguments that config/errata.yaml gives it, and returns a ``Finding``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flatfed import algorithms as registry
from flatfed.papers.errata.numbers import Numbers, printed, setting, subject
from flatfed.papers.metrics import METRICS, Reading
from flatfed.papers.reference import Line, comparable

#: Most by which a printed number with two decimals is off when it is rounded from what it is computed from.
ROUNDED = 0.005 + 1e-9


@dataclass(frozen=True)
class Contradiction:
    """Where it is, what is printed, and what contradicts it: another printed number, or what we compute."""

    where: str
    printed: str
    against: str


@dataclass
class Finding:
    """What a check found: the contradictions, among how many comparisons.

    ``against`` says what the printed numbers were compared with, ``source`` where they are printed.
    """

    against: str
    source: str = "printed"
    contradictions: list[Contradiction] = field(default_factory=list)
    compared: int = 0

    def compare(self, fits: bool, where: str, printed: str, against: str) -> None:
        """Count a comparison; it is a contradiction unless what is printed ``fits``."""
        self.compared += 1
        if not fits:
            self.contradictions.append(Contradiction(where, printed, against))


CHECKS: dict[str, Callable[..., Finding]] = {}


def check(function):
    """Enter the function into ``CHECKS`` under its own name."""
    CHECKS[function.__name__] = function
    return function


@check
def two_tables(numbers: Numbers, first: str, second: str, where: dict[str, Any] | None = None) -> Finding:
    """Compare the numbers, and spreads, that two tables print of the same setting."""
    also = ("metric", "unit", "variant", "target")
    others = {setting(line, *also): line for line in numbers.lines(second)}
    finding = Finding(second)
    for line in numbers.lines(first, **(where or {})):
        if other := others.get(setting(line, *also)):
            finding.compare(_same_number(line, other), subject(line, "metric"), printed(line), printed(other))
    return finding


@check
def train_minus_test(numbers: Numbers, table: str) -> Finding:
    """Compare each printed generalization error with train minus test accuracy."""
    finding = Finding("train minus test")
    for line in numbers.lines(table, metric="generalization_error"):
        names = ("dataset", "partition", "partition_param", "algorithm", "variant")
        same = {name: getattr(line, name) for name in names}
        train, test = (numbers.number(table, metric=f"{kind}_accuracy", **same) for kind in ("train", "test"))
        fits = abs(train - test - line.number) <= 0.005
        finding.compare(fits, subject(line), line.value, f"{train:.2f} − {test:.2f} = {train - test:.2f}")
    return finding


@check
def final_against_target(numbers: Numbers, rounds: list[str], reached: bool, accuracies: str | None = None) -> Finding:
    """Find targets that were reached although the final accuracy is below (``reached``), or the other way about.

    The final accuracies stand in table ``accuracies``, None: in the table of the rounds itself.
    """
    finding = Finding(f"final accuracy in {accuracies or 'the same table'}")
    for table in rounds:
        finals = {setting(line): line for line in numbers.lines(accuracies or table, metric="test_accuracy")}
        for line in numbers.lines(table, metric="rounds_to_target", unit="rounds"):
            if final := finals.get(setting(line)):
                above = final.number >= float(line.target)
                fits = bool(line.value) != reached or above == reached
                shown = f"round {line.value}" if reached else "not reached"
                finding.compare(fits, f"{table}: {subject(line)}", shown, f"final {printed(final)}")
    return finding


@check
def mean_of_settings(numbers: Numbers, table: str, sources: list[str]) -> Finding:
    """Compare printed means over all settings of a dataset with those of the tables they average."""
    finding = Finding(f"mean of {' and '.join(sources)}")
    for line in numbers.lines(table, metric="mean_test_accuracy"):
        same = {"dataset": line.dataset, "algorithm": line.algorithm, "metric": "test_accuracy"}
        values = [other.number for source in sources for other in numbers.lines(source, **same)]
        mean = fmean(values)
        finding.compare(abs(mean - line.number) <= ROUNDED, subject(line), line.value, f"{mean:.4f} (of {len(values)})")
    return finding


@check
def gains(numbers: Numbers, table: str, bases: dict[str, str]) -> Finding:
    """Compare printed gains with the differences of the printed means."""
    finding = Finding("difference of the means")
    for line in numbers.lines(table, metric="mean_test_accuracy_gain"):
        own, base = (
            numbers.number(table, metric="mean_test_accuracy", dataset=line.dataset, algorithm=name)
            for name in (line.algorithm, bases[line.algorithm])
        )
        finding.compare(abs(own - base - line.number) <= ROUNDED, subject(line), line.value, f"{own - base:.2f}")
    return finding


@check
def cost_of_rounds(numbers: Numbers, table: str, base: str) -> Finding:
    """Compare printed costs with rounds times model sizes sent per round (as algorithms declare), over ``base``'s."""
    same = {"metric": "rounds_to_target", "unit": "rounds"}
    cost_of_base = numbers.number(table, algorithm=base, **same)
    finding = Finding("model sizes per round × rounds, over FedAvg's")
    for line in numbers.lines(table, metric="communication_cost"):
        if line.value:
            sizes = max(registry.load(line.algorithm).communication)
            cost = sizes * numbers.number(table, algorithm=line.algorithm, **same) / cost_of_base
            finding.compare(_rounds_to(cost, line), subject(line), line.value, f"{cost:.3f}")
    return finding


@check
def ratios(numbers: Numbers, table: str) -> Finding:
    """Compare printed speed-ups with the quotients of the printed absolute numbers."""
    finding = Finding("quotient of the printed numbers")
    for line in numbers.lines(table, unit="x"):
        base = line.variant.removeprefix("speedup_vs_")
        unit = "rounds" if line.metric == "rounds_to_target" else "s"
        own, of_base = (
            numbers.number(table, metric=line.metric, unit=unit, algorithm=name, target=line.target)
            for name in (line.algorithm, base)
        )
        ratio = of_base / own
        finding.compare(_rounds_to(ratio, line), subject(line, "metric"), line.value, f"{ratio:.4f}")
    return finding


@check
def products(numbers: Numbers, table: str) -> Finding:
    """Compare printed total seconds with seconds per round times rounds."""
    finding = Finding("seconds per round × rounds")
    for line in numbers.lines(table, metric="total_seconds", unit="s"):
        if line.value:
            own = {"algorithm": line.algorithm}
            each = numbers.number(table, metric="seconds_per_round", unit="s", **own)
            total = each * numbers.number(table, metric="rounds_to_target", unit="rounds", **own)
            finding.compare(_rounds_to(total, line), subject(line), line.value, f"{total:.2f}")
    return finding


@check
def compute_in_wall_clock(
    numbers: Numbers, tables: list[str], base: str, wall_clock: str, within: float, algorithms: list[str] | None = None
) -> Finding:
    """Compare the wall clock of a round with what ``tables`` say of computing, and the constant that is beside it.

    The computing of a round of ``base`` is its printed minutes over its printed rounds. The rest of its seconds in
    table ``wall_clock`` is taken to be the same for all rows, whose computing is their printed share of ``base``'s.
    Contradictions are numbers that are more than ``within`` seconds off.
    """
    seconds = {line.algorithm: line.number for line in numbers.lines(wall_clock, unit="s")}
    rounds = {"metric": "rounds_to_target", "unit": "rounds", "algorithm": base}
    computing = fmean(
        60 * line.number / numbers.number(table, target=line.target, **rounds)
        for table in tables
        for line in numbers.lines(table, metric="compute_time_to_target", unit="minutes", algorithm=base)
    )
    constant = seconds[base] - computing
    against = f"{constant:.1f} s and {computing:.1f} s times the computing of a round over {base}'s"
    finding = Finding(against, f"seconds in {wall_clock}")
    for table in tables:
        for line in numbers.lines(table, metric="compute_time_to_target", unit="x"):
            name = line.algorithm
            if name == base or name not in seconds or (algorithms and name not in algorithms):
                continue
            expected = constant + computing * line.number / _relative_rounds(numbers, table, line, base)
            fits = abs(expected - seconds[name]) <= within
            finding.compare(fits, f"{table}: {subject(line)}", f"{seconds[name]:.2f}", f"{expected:.2f}")
    return finding


def _relative_rounds(numbers: Numbers, table: str, line: Line, base: str) -> float:
    """Return a row's rounds over those of ``base``, whether the table prints them as counts or as ratios."""
    same = {"metric": "rounds_to_target", "target": line.target}
    counts = {other.algorithm: other.number for other in numbers.lines(table, unit="rounds", **same)}
    if line.algorithm in counts:
        return counts[line.algorithm] / counts[base]
    return numbers.number(table, unit="x", algorithm=line.algorithm, **same)


@check
def counts_for_ratios(numbers: Numbers, table: str, base: str) -> Finding:
    """List the rounds that a table prints as counts where its other rows are ratios to ``base``."""
    finding = Finding(f"ratio to {base}")
    for line in numbers.lines(table, metric="rounds_to_target", unit="rounds"):
        if line.algorithm != base:
            ratio = _relative_rounds(numbers, table, line, base)
            finding.compare(False, subject(line), line.value, f"{ratio:.2f}x")
    return finding


@check
def declared_costs(numbers: Numbers, table: str, base: str) -> Finding:
    """Compare printed relative costs with what the algorithms of FlatFed declare of themselves, over ``base``'s."""
    finding = Finding("what the listing sends, stores and computes")
    for line in numbers.lines(table):
        metric = METRICS[line.metric].function
        own, of_base = (metric(Reading(algorithm=registry.load(name)())) for name in (line.algorithm, base))
        finding.compare(own / of_base == line.number, subject(line, "metric"), line.value, f"{own / of_base:g}")
    return finding


@check
def repeated_part(numbers: Numbers, table: str, algorithms: list[str] | None = None) -> Finding:
    """Find numbers, with their spreads, that stand in both parts of a table: for other clients and participation."""
    seen: dict[tuple[str, ...], Line] = {}
    finding = Finding("the other part")
    for line in numbers.lines(table, **({"algorithm": algorithms} if algorithms else {})):
        other = seen.setdefault((line.dataset, line.partition_param, line.algorithm), line)
        if other is not line:
            against = f"{other.clients} clients: {printed(other)}"
            finding.compare(not _same_number(line, other), subject(line), printed(line), against)
    return finding


@check
def second_place(numbers: Numbers, table: str, columns: list[dict[str, Any]]) -> Finding:
    """Compare the row underlined as second of a column with the second largest printed number."""
    finding = Finding("second largest number")
    for column in columns:
        fields = {name: value for name, value in column.items() if name != "underlined"}
        second = sorted(numbers.lines(table, **fields), key=lambda line: -line.number)[1]
        marked = numbers.line(table, **fields, algorithm=column["underlined"])
        finding.compare(marked is second, subject(marked), marked.value, f"{second.algorithm} {second.value}")
    return finding


def _same_number(line: Line, other: Line) -> bool:
    """Return whether two lines print the same number and the same spread, or none."""
    return all(comparable(getattr(line, name)) == comparable(getattr(other, name)) for name in ("value", "std"))


def _rounds_to(value: float, line: Line) -> bool:
    """Return whether ``value``, rounded half up to the decimals of a line's number, is that number."""
    scale = 10 ** len(line.value.partition(".")[2])
    return math.floor(value * scale + 0.5 + 1e-9) / scale == line.number
