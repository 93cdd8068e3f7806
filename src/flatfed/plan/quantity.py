"""The types of a metric and of its input; the metrics are in :mod:`flatfed.plan.metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flatfed.runs.curvature import Hessian

#: Accuracy for targets, tuning and the best round -> the evaluation set that it needs.
ACCURACIES = {"test_accuracy": "test", "client_test_accuracy": "clients"}

#: Of a protocol.
DEFAULT_ACCURACY = "test_accuracy"


@dataclass(frozen=True)
class Reading:
    """The input of a metric from one run.

    ``history``: columns of metrics.csv, one entry per evaluated round; rounds count from 1, bytes are totals.
    ``accuracy``: the column whose centred mean of ``smoothing`` entries reaches ``target``. ``timing``: seconds of one
    round by name. ``analysis``: the content of hessian.json. ``algorithm``: has stored_vectors(), communication and
    gradients_per_step. ``config_fact``: a configured number.
    """

    window: int = 1
    smoothing: int = 1
    target: float | None = None
    accuracy: str = DEFAULT_ACCURACY
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    analysis: Hessian | None = None
    algorithm: Any = None
    config_fact: float | None = None

    def final(self, column: str) -> float:
        """Return the column's mean over the last ``window`` evaluated rounds."""
        return fmean(self.history[column][-self.window :])

    def at_crossing(self, column: str) -> float | None:
        """Return the column's entry in the first round that reaches the target, or None.

        The first and the last ``smoothing`` // 2 rounds have no centred mean.
        """
        accuracies, half = self.history[self.accuracy], self.smoothing // 2
        means = (fmean(accuracies[at - half : at + half + 1]) for at in range(half, len(accuracies) - half))
        return next((self.history[column][at] for at, mean in enumerate(means, half) if mean >= self.target), None)


def evaluations(window: int) -> str:
    """Return the evaluations in a final number, in words."""
    return "final round" if window == 1 else f"mean over the last {window} evaluated rounds"


@dataclass(frozen=True)
class Metric:
    """A metric of a run.

    ``unit``: the stored unit. ``source``: the kind of input (:mod:`flatfed.plan.metrics`). ``columns``: its columns
    of metrics.csv. ``words``: its name in a caption. ``higher``: whether larger is better, None for neither.
    ``printed_as``: its name in config/reference. ``needs_target``: whether it needs a target accuracy. ``relative``: a
    fixed comparison with a base row (:data:`RELATIVES`), None if a table chooses. ``defined``: the note under its
    tables. ``declares``: whether it also reads declarations of the algorithm.
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


#: Metric name -> metric, filled by the modules of metrics.
METRICS: dict[str, Metric] = {}

@dataclass(frozen=True)
class Comparison:
    """A comparison of a row with its base row: ``function`` of both numbers of a seed.

    ``variant``: in config/reference. ``unit``: the stored unit, None for the metric's. ``reverses``: whether small
    numbers become large ones.
    """

    function: Callable[[float, float], float]
    variant: str
    unit: str | None = None
    reverses: bool = False


#: Name of a comparison -> comparison.
RELATIVES = {
    "ratio": Comparison(lambda value, base: value / base, "relative_to_{base}", "ratio"),
    "speedup": Comparison(lambda value, base: base / value, "speedup_vs_{base}", "ratio", reverses=True),
    "difference": Comparison(lambda value, base: value - base, "vs_base_method"),
}


def unit_of(name: str, relative: str | None) -> str:
    """Return the stored unit of metric ``name`` compared as ``relative``."""
    return (relative and RELATIVES[relative].unit) or METRICS[name].unit


def register(name: str, function: Callable, unit: str, words: str, *columns: str, source: str = "runs", **options):
    """Register the metric ``name`` in ``METRICS``."""
    METRICS[name] = Metric(function, unit, source, columns, words, **{"printed_as": name, **options})


def metric(unit: str, words: str, *columns: str, **options):
    """Register the decorated function in ``METRICS``."""

    def decorate(function):
        register(function.__name__, function, unit, words, *columns, **options)
        return function

    return decorate
