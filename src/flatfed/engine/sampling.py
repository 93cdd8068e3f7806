"""Client sampling: a function of (seed, round) alone, equal for all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatfed.data.streams import stream


def active_clients(spec: dict[str, Any], clients: int, seed: int, round_: int) -> np.ndarray:
    """Return the sorted ids (n,) of the clients active in round ``round_`` (from 0).

    ``spec``: ``scheme`` and ``sampler``. Schemes: all; bernoulli (each client with probability ``fraction``, drawn
    again if nobody is; official FedSMOO code, FedSAM section 5.1); fixed (``fraction`` of the clients, without
    replacement; DFedSAM). Samplers: keyed (our streams); official (the official code's legacy generator with seed +
    round; for fixed with the round alone, so all seeds draw the same clients).
    """
    scheme, fraction = spec["scheme"], float(spec.get("fraction", 1.0))
    if scheme == "all":
        return np.arange(clients)
    official = spec.get("sampler", "keyed") == "official"
    if scheme == "fixed":
        count = max(1, round(fraction * clients))
        rng = np.random.RandomState(round_) if official else stream(seed, "sampling", round_)
        return np.sort(rng.choice(clients, count, replace=False))
    attempt = 0
    rng = stream(seed, "sampling", round_)
    while True:
        draws = (
            np.random.RandomState(round_ + seed + attempt).uniform(size=clients) if official else rng.random(clients)
        )
        active = np.flatnonzero(draws <= fraction)
        if len(active):
            return active
        attempt += 1
