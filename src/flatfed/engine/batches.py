"""The plan of a round: which images every active client sees at every local step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flatfed.data import augment
from flatfed.engine.streams import stream


@dataclass(frozen=True)
class RoundPlan:
    """Index plan of the rows of one block, rows sorted by falling number of steps.

    ``clients`` (rows,) ids; ``steps`` (rows,) true local steps K_i = E ceil(n_i / B); ``index`` (rows, K, B)
    positions in the image array, padded with a valid one; ``weight`` (rows, K, B) 1 / (batch size), 0 where padded;
    ``draws`` (rows, K, B, 4) augmentation draws or None; ``width`` (K,) widest real batch of a step.
    """

    clients: np.ndarray
    steps: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    draws: np.ndarray | None
    width: np.ndarray

    def rows(self, step: int) -> int:
        """Return how many rows, from the first, still train at ``step``."""
        return int(np.searchsorted(-self.steps, -step, side="left"))

    @property
    def length(self) -> int:
        """Number of local steps of the longest row."""
        return int(self.steps[0])


def step_count(samples: int, batch_size: int, epochs: int) -> int:
    """Return K = E ceil(n / B): the last, smaller batch of an epoch is a step like the others."""
    return epochs * -(-samples // batch_size)


def by_length(clients: np.ndarray, sizes: np.ndarray, batch_size: int, epochs: int) -> np.ndarray:
    """Return ``clients`` sorted by falling step count (stable), so that rows that end early are the last ones."""
    steps = np.array([step_count(int(sizes[c]), batch_size, epochs) for c in clients])
    return clients[np.argsort(-steps, kind="stable")]


def plan(
    clients: np.ndarray,
    data: list[np.ndarray],
    *,
    seed: int,
    round_: int,
    batch_size: int,
    epochs: int,
    augmented: bool,
) -> RoundPlan:
    """Return the plan of one block of ``clients``, already sorted by length; ``data[c]`` client c's image positions.

    Every epoch is a fresh permutation of the client's images cut into batches of B, the last one smaller, as the
    official code's loader without drop_last. Keyed by (seed, round, client): independent of who else is active.
    """
    steps = np.array([step_count(len(data[c]), batch_size, epochs) for c in clients])
    shape = (len(clients), int(steps[0]), batch_size)
    index = np.empty(shape, dtype=np.int64)
    weight = np.zeros(shape, dtype=np.float64)
    draws = np.zeros((*shape, 4), dtype=np.uint8) if augmented else None
    for row, client in enumerate(clients):
        own, length = data[client], int(steps[row])
        per_epoch = length // epochs
        order = stream(seed, "batches", round_, client)
        index[row] = own[0]
        for epoch in range(epochs):
            padded = np.full(per_epoch * batch_size, own[0])
            padded[: len(own)] = own[order.permutation(len(own))]
            first = epoch * per_epoch
            index[row, first : first + per_epoch] = padded.reshape(per_epoch, batch_size)
            sizes = np.minimum(batch_size, len(own) - batch_size * np.arange(per_epoch))
            real = np.arange(batch_size) < sizes[:, None]
            weight[row, first : first + per_epoch] = real / sizes[:, None]
        if draws is not None:
            generator = stream(seed, "augmentation", round_, client)
            draws[row, :length] = augment.draw(generator, length * batch_size).reshape(length, batch_size, 4)
    width = (weight > 0).sum(axis=2).max(axis=0)
    return RoundPlan(np.asarray(clients), steps, index, weight, draws, width)
