"""Significance over seeds: exact sign-flip tests of paired differences (Fisher 1935), with Holm's correction.

Algorithms of one seed use the same clients, batches and augmentation. If two rows do not differ, both signs of each
difference are equally likely.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

#: The largest p of a significant difference.
LEVEL = 0.05

#: The largest number of seeds with all patterns of signs.
MOST = 16

#: The seed of the random patterns.
SEED = 7


def least_seeds() -> int:
    """Return the least number of seeds of a significant test.

    >>> least_seeds()
    6
    """
    return next(n for n in itertools.count(1) if 2.0 ** (1 - n) <= LEVEL)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p of ``differences``, one per seed: the share of sign patterns at least as extreme.

    More than ``MOST`` seeds use 2^``MOST`` random patterns. Sums are equal if they agree to a billionth.

    :raises ValueError: a difference is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"differences are not finite: {differences}")
    slack = 1e-9 * np.abs(values).sum()
    return float((np.abs(values @ _signs(len(values))) >= abs(values.sum()) - slack).mean())


def _signs(seeds: int) -> np.ndarray:
    """Return sign patterns (seeds, patterns) that begin with +; the others are mirror images."""
    if seeds > MOST:
        signs = 2.0 * np.random.default_rng(SEED).integers(0, 2, (seeds, 1 << MOST)) - 1
        signs[:, 0] = 1  # the observed pattern
        return signs
    patterns = np.arange(1 << max(0, seeds - 1))
    return 1.0 - 2 * ((patterns >> np.arange(seeds)[:, None]) & 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p of several tests, corrected for the family-wise error rate (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(ps, kind="stable")
    corrected = np.maximum.accumulate(np.minimum(1.0, np.arange(len(ps), 0, -1) * np.take(ps, order)))
    return corrected[np.argsort(order)].tolist()
