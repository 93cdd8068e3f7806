"""Random streams, one for every (seed, purpose, key).

All algorithms of a seed use the same clients, batches and augmentations, also after an interruption. NumPy draws on the
host, and devices therefore do not matter.
"""

from __future__ import annotations

import numpy as np

#: Purpose -> its number; the comments name its key.
PURPOSES = {
    "weights": 1,  # no key
    "partition": 2,  # no key
    "sampling": 3,  # round
    "batches": 4,  # round, client
    "augmentation": 5,  # round, client
    "dropout": 6,  # round, client
    "algorithm": 7,  # round, client, draw
    "topology": 8,  # round
    "subset": 9,  # images for analysis
    "directions": 10,  # loss-surface directions, Hessian probes
    "validation": 11,  # client
    "client_test": 12,  # client
}


def sequence(seed: int, purpose: str, *key: int) -> np.random.SeedSequence:
    """Return the seed sequence of (seed, purpose, key).

    :raises ValueError: a number is outside [0, 2^32); larger numbers are two words, and keys could collide.
    """
    words = (seed, PURPOSES[purpose], *key)
    if not all(0 <= int(word) < 1 << 32 for word in words):
        raise ValueError(f"seed and key must lie in [0, 2^32): {words}")
    return np.random.SeedSequence(int(seed), spawn_key=tuple(int(word) for word in words[1:]))


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return an independent NumPy generator (Philox) for (seed, purpose, key)."""
    return np.random.Generator(np.random.Philox(sequence(seed, purpose, *key)))


def torch_seed(seed: int, purpose: str, *key: int) -> int:
    """Return a 63-bit seed for a ``torch.Generator``."""
    return int(sequence(seed, purpose, *key).generate_state(1, np.uint64)[0] >> np.uint64(1))
