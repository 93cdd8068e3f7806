"""What a metric is, what it reads of a run, and how a row is compared with another.

The metrics themselves are in :mod:`flatfed.papers.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flatfed.runs.curvature import Hessian

History = Mapping[str, Sequence[float]]

#: Accuracies that a protocol can name for its targets, its tuning and ``best`` -> the set of images that they need.
ACCURACIES = {"test_accuracy": "test", "client_test_accuracy": "clients"}

#: The accuracy that is read where a protocol names none.
TEST = "test_accuracy"


@dataclass(frozen=True)
class Reading:
    """What a metric reads of one run; what its source does not offer stays empty.

    ``history``: the columns of metrics.csv as lists, one entry per evaluated round, rounds counted from 1; bytes are
    totals since round 1. ``accuracy``: the column of it that a ``target`` is held against, as the protocol names it.
    ``timing``: seconds of one round by name. ``analysis``: what hessian.json says.
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
        """Return the column's mean over the last ``window`` evaluated rounds; 1: the final round alone."""
        return fmean(self.history[column][-self.window :])

    def at_crossing(self, column: str) -> float | None:
        """Return the column's entry where the accuracy first is at or above the target, None where it never is."""
        entries = zip(self.history[self.accuracy], self.history[column], strict=True)
        return next((entry for accuracy, entry in entries if accuracy >= self.target), None)


@dataclass(frozen=True)
class Metric:
    """A metric: its function, stored unit, source, the columns of metrics.csv it reads, and what else is true of it.

    ``higher``: whether larger is better (True), worse (False), or neither (None). ``printed_as``: its name in
    config/reference. ``relative``: how it is always compared with a base row (:data:`RELATIVES`), None where it need
    not be. ``words``: its name in a caption.
    ``defined``: what a reader must know of how it is counted, printed under every table that shows it. ``declares``:
    whether it also reads what an algorithm declares of itself.
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
        """Whether metrics.csv is read."""
        return self.source == "runs" or (self.source == "timing" and self.needs_target)


#: All metrics by name, filled where they are defined.
METRICS: dict[str, Metric] = {}

#: How a row is compared with its base row, seed by seed: name -> function of its number and the base's.
RELATIVES: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda ours, base: ours / base,
    "speedup": lambda ours, base: base / ours,
    "difference": lambda ours, base: ours - base,
}


def unit_of(name: str, relative: str | None) -> str:
    """Return the stored unit of metric ``name`` compared as ``relative``: that of ratios and speed-ups is "ratio"."""
    return "ratio" if relative in ("ratio", "speedup") else METRICS[name].unit


def enter(name: str, function: Callable, unit: str, words: str, *columns: str, source: str = "runs", **also) -> None:
    """Enter a metric into ``METRICS`` under its ``name``."""
    METRICS[name] = Metric(function, unit, source, columns, words, **{"printed_as": name, **also})


def metric(unit: str, words: str, *columns: str, **also):
    """Enter the decorated function into ``METRICS`` under its own name."""

    def entered(function):
        enter(function.__name__, function, unit, words, *columns, **also)
        return function

    return entered
