"""What a metric is, and what it reads: the forms that :mod:`flatfed.tables.metrics` fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

History = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Reading:
    """What is known of one run: what its metric's source offers; the rest stays empty.

    ``history``: the columns of metrics.csv as lists, one entry per evaluated round, rounds counted from 1; bytes are
    totals since round 1. ``timing``: seconds of one round by name. ``analysis``: hessian.json, as
    ``flatfed.analysis.records`` says. ``algorithm``: an object with stored_vectors(), communication and
    gradients_per_step. ``given``: a number.
    """

    window: int = 1
    target: float | None = None
    history: History = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    analysis: Mapping[str, Any] = field(default_factory=dict)
    algorithm: Any = None
    given: float | None = None

    def final(self, column: str) -> float:
        """Return the column's mean over the last ``window`` evaluated rounds; 1: the final round alone."""
        return fmean(self.history[column][-self.window :])

    def crossing(self) -> int | None:
        """Return the place in the history at which the test accuracy first is at or above the target, or None."""
        accuracies = self.history["test_accuracy"]
        return next((place for place, accuracy in enumerate(accuracies) if accuracy >= self.target), None)

    def at_crossing(self, column: str) -> float | None:
        """Return the column's entry at the crossing, None where the target was not reached."""
        place = self.crossing()
        return None if place is None else self.history[column][place]


@dataclass(frozen=True)
class Metric:
    """A metric: its function, stored unit, source, the columns of metrics.csv it reads, and what else is true of it.

    ``higher``: whether larger is better (True), worse (False), or neither (None). ``printed_as``: its name in
    config/reference. ``relative``: how it is always taken against a base row, if it is. ``several``: a seed has several
    runs, and the number is their mean. ``words``: its name in a caption.
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
    several: bool = False

    @property
    def needs_runs(self) -> bool:
        """Whether metrics.csv is read."""
        return self.source == "runs" or (self.source == "timing" and self.needs_target)
