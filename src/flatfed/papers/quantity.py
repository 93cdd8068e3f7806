"""The types of a metric and of its input from a run, and the comparisons of a row with a base row.

The metrics themselves are in :mod:`flatfed.papers.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flatfed.runs.curvature import Hessian

History = Mapping[str, Sequence[float]]

#: Accuracies that a protocol can use for targets, tuning and ``best`` -> the evaluation set that they need.
ACCURACIES = {"test_accuracy": "test", "client_test_accuracy": "clients"}

#: The default accuracy of a protocol.
TEST = "test_accuracy"


@dataclass(frozen=True)
class Reading:
    """The input of a metric from one run; fields that the metric's source does not provide are empty.

    ``history``: the columns of metrics.csv as lists, one entry per evaluated round, rounds counted from 1; bytes are
    totals since round 1. ``accuracy``: the column that is compared with ``target``, chosen by the protocol.
    ``timing``: seconds of one round by name. ``analysis``: the content of hessian.json.
    ``algorithm``: an object with stored_vectors(), communication and gradients_per_step. ``given``: a number.
    """

    window: int = 1
    target: float | None = None
    accuracy: str = TEST
    history: History = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    analysis: Hessian | None = None
    algorithm: Any = None
    given: float | None = None

    def final(self, column: str) -> float:
        """Return the column's mean over the last ``window`` evaluated rounds."""
        return fmean(self.history[column][-self.window :])

    def at_crossing(self, column: str) -> float | None:
        """Return the column's entry at the first round whose accuracy reaches the target, or None."""
        entries = zip(self.history[self.accuracy], self.history[column], strict=True)
        return next((entry for accuracy, entry in entries if accuracy >= self.target), None)


@dataclass(frozen=True)
class Metric:
    """A metric: its function, stored unit, source, columns of metrics.csv, and properties.

    ``higher``: whether larger is better (True), worse (False), or neither (None). ``printed_as``: its name in
    config/reference. ``relative``: its fixed comparison with a base row (:data:`RELATIVES`), None if a table chooses.
    ``words``: its name in a caption. ``defined``: its definition for readers, printed under every table that shows it.
    ``declares``: whether it also reads declarations of the algorithm.
    """

    function: Callable[[Reading], float | None]
    unit: str
    source: str
    columns: tuple[str, ...]
    words: str
    higher: bool | None
    printed_as: str
    needs_target: bool = False
    relative: str | None = None
    defined: str = ""
    declares: bool = False

    @property
    def needs_runs(self) -> bool:
        """Whether the metric reads metrics.csv."""
        return self.source == "runs" or (self.source == "timing" and self.needs_target)


#: Metric name -> metric; the modules that define metrics fill it.
METRICS: dict[str, Metric] = {}

#: Comparison of a row with its base row, seed by seed -> function of the row's and the base row's number.
RELATIVES: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda value, base: value / base,
    "speedup": lambda value, base: base / value,
    "difference": lambda value, base: value - base,
}


def unit_of(name: str, relative: str | None) -> str:
    """Return the stored unit of metric ``name`` compared as ``relative``; "ratio" for ratios and speed-ups."""
    return "ratio" if relative in ("ratio", "speedup") else METRICS[name].unit


def enter(name: str, function: Callable, unit: str, words: str, *columns: str, source: str = "runs", **about) -> None:
    """Enter a metric into ``METRICS`` under its ``name``."""
    METRICS[name] = Metric(function, unit, source, columns, words, **{"printed_as": name, **about})


def metric(unit: str, words: str, *columns: str, **about):
    """Enter the decorated function into ``METRICS`` under its name."""

    def register(function):
        enter(function.__name__, function, unit, words, *columns, **about)
        return function

    return register
