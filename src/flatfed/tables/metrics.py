"""The metrics a cell can hold: one function each, from one run's history to one number.
 A metric takes ``history``, the columns of metrics.csv as lists of numbers (one entry per evaluated round,
rounds counted from 1), and the cell's ``window`` and ``target``; it returns the number in its stored unit,
or None where a target was not reached. To add one, write its function here under ``@metric(...)``; its name
is what a table's YAML says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

History = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Metric:
    """A metric: its function, the unit its values are stored in, the columns of metrics.csv it reads."""

    function: Callable[[History, int, float | None], float | None]
    unit: str
    columns: tuple[str, ...]
    needs_target: bool = False


METRICS: dict[str, Metric] = {}


def metric(unit: str, *columns: str, needs_target: bool = False):
    """Enter the decorated function into ``METRICS`` under its own name."""

    def enter(function):
        METRICS[function.__name__] = Metric(function, unit, columns, needs_target)
        return function

    return enter


@metric("fraction", "test_accuracy")
def test_accuracy(history: History, window: int, target: float | None) -> float:
    """Test accuracy of the final round: the mean over the last ``window`` evaluated rounds (1: the last alone)."""
    return fmean(history["test_accuracy"][-window:])


@metric("rounds", "round", "test_accuracy", needs_target=True)
def rounds_to_target(history: History, window: int, target: float | None) -> float | None:
    """Communication rounds until the test accuracy, unsmoothed, first is at or above ``target``.

    FedSMOO, Table 6, "communication rounds required to achieve the target test accuracy". A first crossing,
    not a lasting one: the papers count rounds whose final accuracy lies below the target (FedSAM Table 1,
    FedRobust).
    """
    for number, accuracy in zip(history["round"], history["test_accuracy"], strict=True):
        if accuracy >= target:
            return number
    return None
