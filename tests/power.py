"""How often the exact test over seeds finds a true difference: by simulation, with the test that tables use."""

from __future__ import annotations

import numpy as np

from flatfed.tables import claims

#: Simulated tables, and the seed of their draws.
DRAWN, SEED = 2000, 7


def power(seeds: int, size: float, tests: int = 1) -> float:
    """Return the share of simulated tables in which ``seeds`` find a difference of ``size`` standard deviations.

    The paired differences are normal. The other ``tests`` of the table have no difference, so that Holm's correction
    requires LEVEL / tests.
    """
    tables = np.random.default_rng(SEED).normal(size, 1.0, (DRAWN, seeds))
    found = np.apply_along_axis(claims.sign_flip, -1, tables)
    return float((found <= claims.LEVEL / tests * (1 + 1e-12)).mean())
