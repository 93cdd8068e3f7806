"""Random streams keyed by what they are for, so that no draw depends on what was drawn before it.

Every stream is a function of (seed, purpose, key): all algorithms of a seed see the same clients, batches and
augmentations, and a run that was interrupted draws what it would have drawn. Streams come from NumPy on the host, so
they are the same on every device.
"""

from __future__ import annotations

import numpy as np

PURPOSES = {
    "weights": 1,  # initial weights: no key
    "partition": 2,  # dealing the data: no key
    "sampling": 3,  # active clients: round
    "batches": 4,  # order of a client's images: round, client
    "augmentation": 5,  # flips and crops: round, client
    "dropout": 6,  # keys of dropout masks: round, client
    "algorithm": 7,  # an algorithm's own draws: round, client, draw
    "topology": 8,  # time-varying graphs: round
    "subset": 9,  # subsets of the data for analysis
    "directions": 10,  # loss-surface directions, Hessian probes
    "validation": 11,  # validation part of a client's training images: client
    "client_test": 12,  # a client's own test images: client
}


def sequence(seed: int, purpose: str, *key: int) -> np.random.SeedSequence:
    """Return the seed sequence of (seed, purpose, key); all keys of one purpose have the same length.

    Raises ValueError for a seed or a key outside [0, 2^32): a larger number would be two words, and keys could collide.
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
