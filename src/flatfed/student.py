"""Student's t distribution. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence


def student(freedom: int, probability: float = 0.975) -> float:
    """Return the quantile of Student's t distribution with a whole number of degrees of freedom, by bisection."""
    low, high = 0.0, 1e3
    while high - low > 1e-9 * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _student_cdf(t: float, freedom: int) -> float:
    """Return P(T <= t) for t >= 0: the finite series for whole degrees of freedom (Abramowitz 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = total = cosine if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if freedom % 2 == 0:
        return 0.5 + sine * total / 2
    return 0.5 + (angle + (sine * total if freedom > 1 else 0.0)) / math.pi


def half_width(errors: Sequence[tuple[float, int]], probability: float = 0.975) -> float:
    """Return half the width of the two-sided interval around a sum of independent estimates, by Student's t.

    ``errors``: (standard error, degrees of freedom) of each; those of the sum are Welch's and Satterthwaite's, rounded
    down. ``probability``: of lying below the upper bound. Infinite where an error is.
    """
    squares = [(error * error, freedom) for error, freedom in errors]
    total = sum(square for square, _ in squares)
    if not 0 < total < math.inf:
        return math.sqrt(total)
    freedom = 1 / sum((square / total) ** 2 / freedom for square, freedom in squares if square)
    return student(max(1, int(freedom + 1e-9)), probability) * math.sqrt(total)
