"""The same runs read in other ways: how much of a difference to print may lie in the reading alone.

Accuracies of federated runs rise and fall by several points from one round to the next, so that they cross a target
well before the mean of a few rounds does. Papers seldom say which they count: FedSMOO draws its curves through a
Hanning window of unstated width (B.5) and prints rounds to a target without a word on it (Table 6).
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from flatfed.papers.metrics import METRICS
from flatfed.papers.units import signed
from flatfed.specs.cell import Cell
from flatfed.tables.own_setting import Outcome, Trained, outcome_of
from flatfed.tables.standing import side

#: Evaluated rounds in the Hanning window: what config/figures takes for FedSMOO's curves.
WINDOW = 21


def hanning(values: np.ndarray, window: int) -> np.ndarray:
    """Return ``values`` (rounds,) smoothed with a Hanning window of ``window`` points, all of positive weight.

    Near the ends the window is cut and its weights made to sum to one again, so the first and last values are not drawn
    to zero.
    """
    window = min(window, len(values) - (len(values) + 1) % 2)
    if window < 3:
        return values
    weights = np.hanning(window + 2)[1:-1]
    total = np.convolve(np.ones_like(values), weights, mode="same")
    return np.convolve(values, weights, mode="same") / total


@dataclass(frozen=True)
class ReadOut:
    """A way to read a curve: its ``label``, and what it makes of the accuracies (rounds,) of the evaluated rounds."""

    label: str
    curve: Callable[[pd.Series], pd.Series | np.ndarray]

    def read(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` with its number read this way."""
        titles = outcome.table, outcome.column, outcome.row
        return outcome_of(outcome.spec, titles, [self._smoothed(run) for run in outcome.runs])

    def _smoothed(self, run: Trained) -> Trained:
        accuracies = pd.Series(run.history[run.accuracy], dtype=float)
        return replace(run, history={**run.history, run.accuracy: list(self.curve(accuracies))})


def mean_of(rounds: int) -> ReadOut:
    """Return the way that reads the mean of the last ``rounds`` evaluated rounds, of fewer at the start."""
    # Nine digits: a mean of accuracies that are all at the target must not lie below it by what sums lose.
    return ReadOut(f"mean of {rounds}", lambda curve: curve.rolling(rounds, min_periods=1).mean().round(9))


AS_IN_THE_TABLES = ReadOut("as in the tables", lambda curve: curve)
MEANS = mean_of(3), mean_of(5), mean_of(10)
DRAWN = ReadOut(f"Hanning window of {WINDOW}", lambda curve: hanning(curve.to_numpy(), WINDOW))
BEST = ReadOut("best on the test set", lambda curve: curve.expanding().max())

#: Ways to read rounds to a target, and an accuracy. The best so far crosses where the curve first does.
OF_ROUNDS, OF_ACCURACY = (AS_IN_THE_TABLES, *MEANS, DRAWN), (AS_IN_THE_TABLES, *MEANS, BEST)


@dataclass(frozen=True)
class Difference:
    """How our number, in its stored unit, is set against the printed one, how a mean is taken and written."""

    words: str
    between: Callable[[float, float], float]
    mean: Callable[[list[float]], float]
    write: Callable[[float], str]

    def mean_over(self, cells: Iterable[Cell]) -> float:
        """Return the mean over ``cells``, of each of which both numbers are known."""
        return self.mean([self.between(cell.value, cell.paper_value) for cell in cells])


@dataclass(frozen=True)
class Comparison:
    """Printed numbers of one kind beside ours, by each of several ``ways`` to read a curve.

    ``rows``: for each printed number ours by each of the ways, the largest difference in the tables' own way first.
    ``agreeing``: by each of the ways how many numbers agree with print, of how many that can be told. ``means``: by
    each of the ways the mean ``difference`` over the ``shared`` numbers that all ways know; empty where there are none.
    """

    metric: str
    ways: tuple[ReadOut, ...]
    rows: list[list[Outcome]]
    agreeing: list[tuple[int, int]]
    means: list[float]
    difference: Difference
    shared: int

    @property
    def title(self) -> str:
        """The metric's name."""
        return METRICS[self.metric].words


def comparisons(outcomes: Iterable[Outcome]) -> list[Comparison]:
    """Return how rounds to targets, and accuracies of the last round, compare with print, read in several ways.

    A number that several tables print counts once; one of which nothing can be told beside print is left out.
    """
    distinct = list({outcome.quantity: outcome for outcome in outcomes}.values())
    rounds = Difference("ours over print", operator.truediv, statistics.geometric_mean, "{:.2f}".format)
    accuracy = Difference("ours minus print, points", operator.sub, statistics.fmean, _points)
    both = (
        _comparison(distinct, "rounds_to_target", OF_ROUNDS, rounds),
        _comparison(distinct, "test_accuracy", OF_ACCURACY, accuracy),
    )
    return [comparison for comparison in both if comparison.rows]


def _comparison(outcomes: list[Outcome], metric: str, ways: tuple[ReadOut, ...], difference: Difference) -> Comparison:
    told = [
        outcome
        for outcome in outcomes
        if outcome.cell.metric == metric and outcome.cell.paper_value is not None and side(outcome)
    ]
    rows = [[way.read(outcome) for way in ways] for outcome in sorted(told, key=_apart, reverse=True)]
    shared = [[outcome.cell for outcome in row] for row in rows if all(outcome.comparable for outcome in row)]
    return Comparison(
        metric=metric,
        ways=ways,
        rows=rows,
        agreeing=[_agreeing(column) for column in zip(*rows, strict=True)],
        means=[difference.mean_over(cells) for cells in zip(*shared, strict=True)],
        difference=difference,
        shared=len(shared),
    )


def _points(fraction: float) -> str:
    return signed(fraction, "percent", 2)


def _apart(outcome: Outcome) -> float:
    """Return by how large a part of itself the printed number is missed, by our bound where no number is known."""
    number = outcome.cell.value if outcome.comparable else outcome.bounds.low
    return abs(math.log(number / outcome.cell.paper_value))


def _agreeing(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    sides = [side(outcome) for outcome in outcomes]
    return sides.count("agrees"), len(sides) - sides.count("")
