"""The same runs read in other ways: how much of a difference to print may lie in the reading alone.

Accuracies of federated runs rise and fall by several points from one round to the next, so that they cross a target
well before the mean of a few rounds does. Papers seldom say which they count: FedSMOO draws its curves through a
Hanning window of unstated width (B.5) and prints rounds to a target without a word on it (Table 6).
"""

from __future__ import annotations

import math
import operator
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import TEST
from flatfed.papers.units import signed
from flatfed.specs.cell import Cell
from flatfed.tables.own_setting import Outcome, Trained, outcome_of
from flatfed.tables.standing import Pair, pairs, side

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
    """A way to read a curve: its ``label``, and what it makes of the accuracies (rounds,) of the evaluated rounds.

    ``curve``: None leaves it as it is. ``waits``: evaluated rounds after a round that still change what is read there.
    """

    label: str
    curve: Callable[[pd.Series], pd.Series | np.ndarray] | None
    waits: int = 0

    def read(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` with its number read this way, as far as no round to come can change it."""
        if self.curve is None:
            return outcome
        titles = outcome.table, outcome.column, outcome.row
        return outcome_of(outcome.spec, titles, [self._smoothed(run) for run in outcome.runs])

    def _smoothed(self, run: Trained) -> Trained:
        accuracies = pd.Series(run.history[run.accuracy], dtype=float)
        settled = len(accuracies) if run.record.ended else max(0, len(accuracies) - self.waits)
        history = {**run.history, run.accuracy: list(self.curve(accuracies))}
        return replace(run, history={column: values[:settled] for column, values in history.items()})


def mean_of(rounds: int) -> ReadOut:
    """Return the way that reads the mean of the last ``rounds`` evaluated rounds, of fewer at the start."""
    # Nine digits: a mean of accuracies that are all at the target must not lie below it by what sums lose.
    return ReadOut(f"mean of {rounds}", lambda curve: curve.rolling(rounds, min_periods=1).mean().round(9))


AS_IN_THE_TABLES = ReadOut("as in the tables", None)
MEANS = mean_of(3), mean_of(5), mean_of(10)
DRAWN = ReadOut(f"Hanning window of {WINDOW}", lambda curve: hanning(curve.to_numpy(), WINDOW), WINDOW // 2)
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

    ``rows``: for each of the ``printed`` numbers of which something can be told, ours by each of the ways, the largest
    difference in the tables' own way first. ``sides``: by each of the ways, of how many numbers ours "agrees" with
    print, is "better" and "worse". ``means``: by each of the ways the mean ``difference`` over the ``shared`` numbers
    that all ways know; empty where there are none.
    """

    metric: str
    ways: tuple[ReadOut, ...]
    rows: list[list[Outcome]]
    sides: list[Counter[str]]
    means: list[float]
    difference: Difference
    shared: int
    printed: int

    @property
    def title(self) -> str:
        """The metric's name."""
        return METRICS[self.metric].words


def comparisons(outcomes: Iterable[Outcome]) -> list[Comparison]:
    """Return how rounds to targets, and accuracies of the last round, compare with print, read in several ways.

    A number that several tables print counts once, by runs of the precision that most outcomes have, where there are
    some; one of which nothing can be told beside print is left out.
    """
    found = [outcome for outcome in outcomes if outcome.cell.paper_value is not None]
    most = Counter(outcome.precision for outcome in found).most_common(1)
    ranked = sorted(found, key=lambda outcome: outcome.precision == most[0][0])
    distinct = list({outcome.number: outcome for outcome in ranked}.values())
    rounds = Difference("ours over print", operator.truediv, statistics.geometric_mean, "{:.2f}".format)
    accuracy = Difference("ours minus print, points", operator.sub, statistics.fmean, _points)
    both = (
        _comparison(distinct, "rounds_to_target", OF_ROUNDS, rounds),
        _comparison(distinct, "test_accuracy", OF_ACCURACY, accuracy),
    )
    return [comparison for comparison in both if comparison.rows]


def _comparison(outcomes: list[Outcome], metric: str, ways: tuple[ReadOut, ...], difference: Difference) -> Comparison:
    printed = [outcome for outcome in outcomes if outcome.cell.metric == metric]
    told = sorted(filter(side, printed), key=_apart, reverse=True)
    rows = [[way.read(outcome) for way in ways] for outcome in told]
    shared = [[outcome.cell for outcome in row] for row in rows if all(outcome.comparable for outcome in row)]
    return Comparison(
        metric=metric,
        ways=ways,
        rows=rows,
        sides=[Counter(filter(None, map(side, column))) for column in zip(*rows, strict=True)],
        means=[difference.mean_over(cells) for cells in zip(*shared, strict=True)],
        difference=difference,
        shared=len(shared),
        printed=len(printed),
    )


def _points(fraction: float) -> str:
    return signed(fraction, "percent", 2)


def _apart(outcome: Outcome) -> float:
    """Return by how large a part of itself the printed number is missed, by our bound where no number is known."""
    number = outcome.cell.value if outcome.comparable else outcome.bounds.low
    return abs(math.log(number / outcome.cell.paper_value))


class ReadPair(NamedTuple):
    """A ``pair`` of rows as the tables read it, and how it stands by each way, None where one cannot tell."""

    pair: Pair
    said: tuple[str | None, ...]

    @property
    def told(self) -> bool:
        """Whether most of the ways can tell."""
        return 2 * sum(said is not None for said in self.said) > len(self.said)

    @property
    def answer(self) -> str:
        """What all ways say that can tell, "" where they differ or none can."""
        answers = {said for said in self.said if said is not None}
        return answers.pop() if len(answers) == 1 else ""


def pairs_read(outcomes: Iterable[Outcome]) -> list[ReadPair]:
    """Return how the printed order of rows comes out, read in every way."""
    by_ways: dict[tuple[ReadOut, ...], list[Outcome]] = {}
    for outcome in outcomes:
        by_ways.setdefault(ways_of(outcome.cell.metric), []).append(outcome)
    return [
        ReadPair(read[0], tuple(pair.stands for pair in read))
        for ways, same in by_ways.items()
        for read in zip(*(pairs([way.read(outcome) for outcome in same]) for way in ways), strict=True)
    ]


def ways_of(metric: str) -> tuple[ReadOut, ...]:
    """Return the ways to read a number of ``metric``; there is one where it is not read from a curve of accuracies."""
    if METRICS[metric].needs_target:
        return OF_ROUNDS
    return OF_ACCURACY if metric == TEST else (AS_IN_THE_TABLES,)
