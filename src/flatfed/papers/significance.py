"""What seeds can tell from chance: exact sign flips of paired differences, Holm's correction.

All algorithms of a seed see the same clients, batches and augmentation, so that numbers are compared seed by seed. If
two rows do not differ, each seed's difference is as likely to have the other sign: of the 2^n ways to give n
differences their signs, the test counts those whose mean is as far from zero as what was found (Fisher 1935). It
assumes nothing of how the differences are distributed, and with few seeds it says that it cannot say anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: A difference is told from chance where its p is at most this.
LEVEL = 0.05

#: Up to so many seeds all patterns of signs are counted; of more, 2^MOST that are drawn.
MOST = 16

#: The seed of these draws: the same answer every time.
SEED = 7


def least_seeds() -> int:
    """Return the number of seeds under which not even the strongest result of a test can be told from chance.

    >>> least_seeds()
    6
    """
    return next(n for n in itertools.count(1) if 2.0 ** (1 - n) <= LEVEL)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p of ``differences``, one a seed: the share of patterns of signs as extreme as theirs.

    Of more than ``MOST`` seeds 2^``MOST`` patterns stand for all.
    Sums of differences that agree to a billionth of their absolute sum count as equal. ValueError: one is no number.
    """
    import numpy as np

    values = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"differences that are no finite numbers: {differences}")
    slack = 1e-9 * np.abs(values).sum()
    return float((np.abs(values @ _signs(len(values))) >= abs(values.sum()) - slack).mean())


def _signs(seeds: int) -> np.ndarray:
    """Return patterns of signs (seeds, patterns): all with the first one +, whose mirror images count the same."""
    import numpy as np

    if seeds > MOST:
        signs = 2.0 * np.random.default_rng(SEED).integers(0, 2, (seeds, 1 << MOST)) - 1
        signs[:, 0] = 1  # what was found is among them
        return signs
    patterns = np.arange(1 << max(0, seeds - 1))
    return 1.0 - 2 * ((patterns >> np.arange(seeds)[:, None]) & 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p of several tests, corrected so that one false claim among them all is as rare as in one (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    corrected, highest = [1.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = highest
    return corrected
