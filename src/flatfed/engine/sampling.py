"""Client sampling: a function of (seed, round) alone, equal for all algorithms."""

from __future__ import annotations

from itertools import count

import numpy as np

from flatfed.data.streams import stream
from flatfed.runs.run_config import SamplingSettings


def active_clients(spec: SamplingSettings, clients: int, seed: int, round_: int) -> np.ndarray:
    """Return the sorted ids (n,) of the clients active in round ``round_`` (from 0).

    Schemes of ``spec``: all; bernoulli (each client with probability ``fraction``, redrawn if nobody is active;
    official FedSMOO code, FedSAM section 5.1); fixed (``fraction`` of the clients without replacement; DFedSAM).
    Samplers: keyed (FlatFed's streams; the default); official (the official code's legacy generator with seed + round;
    for fixed with the round alone, so all seeds draw the same clients).
    """
    scheme, fraction = spec.scheme, float(spec.fraction or 1.0)
    if scheme == "all":
        return np.arange(clients)
    official = spec.sampler == "official"
    if scheme == "fixed":
        size = max(1, round(fraction * clients))
        rng = np.random.RandomState(round_) if official else stream(seed, "sampling", round_)
        return np.sort(rng.choice(clients, size, replace=False))
    keyed = stream(seed, "sampling", round_)
    for attempt in count():
        rng = np.random.RandomState(round_ + seed + attempt) if official else keyed
        active = np.flatnonzero(rng.uniform(size=clients) <= fraction)
        if len(active):
            return active


def most_participants(spec: SamplingSettings, clients: int, seed: int, rounds: int) -> int:
    """Return the largest number of clients active in one of the first ``rounds`` rounds."""
    varies = spec.scheme == "bernoulli"
    return max(len(active_clients(spec, clients, seed, round_)) for round_ in range(rounds if varies else 1))
