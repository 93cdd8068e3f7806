"""Who takes part in a round: a function of (seed, round) alone, so that it is the same for all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flatfed.data.streams import stream


def active_clients(spec: dict[str, Any], clients: int, seed: int, round_: int) -> np.ndarray:
    """Return the sorted ids (n,) of the clients active in round ``round_`` (counted from 0).

    ``spec``: ``scheme`` all, bernoulli (every client with probability ``fraction``, drawn again when nobody is; as the
    official FedSMOO code and FedSAM section 5.1) or fixed (``fraction`` of the clients, without replacement; DFedSAM),
    and ``sampler``: keyed (our streams) or official (the legacy generator of the official code, seeded seed + round; of
    fixed ones seeded by the round alone, so that all seeds draw the same clients).
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
        chosen = np.flatnonzero(draws <= fraction)
        if len(chosen):
            return chosen
        attempt += 1
