"""The plan of a round: its clients and the images of their local steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from flatfed.data import augment
from flatfed.data.streams import stream
from flatfed.engine import dropout
from flatfed.runs.run_config import SamplingSettings


@dataclass(frozen=True)
class RoundPlan:
    """The images of a block's rows, sorted by decreasing number of steps.

    ``steps`` (rows,): K_i = E ceil(n_i / B). ``index`` (rows, K, B): positions in the image array, padded with a valid
    one. ``weight`` (rows, K, B): 1 / (batch size), 0 for padding. ``draws`` (rows, K, B, 4): augmentation draws or
    None. ``keys`` (rows, K, sites, 2): keys of dropout masks or None.
    """

    steps: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    draws: np.ndarray | None
    keys: np.ndarray | None

    @cached_property
    def width(self) -> np.ndarray:
        """Widest unpadded batch of every step, (K,)."""
        return (self.weight > 0).sum(axis=2).max(axis=0)

    def rows(self, step: int) -> int:
        """Return how many rows still train at ``step``."""
        return int(np.searchsorted(-self.steps, -step, side="left"))

    @property
    def length(self) -> int:
        return int(self.steps[0])


@dataclass(frozen=True)
class Schedule:
    """The length of a client's round: ``epochs`` E over its images in batches of ``batch_size`` B.

    With ``steps``, a round has that many steps, and epochs continue across rounds, also those without the client.
    """

    batch_size: int
    epochs: int | None
    steps: int | None = None

    def batches(self, samples: int) -> int:
        return -(-samples // self.batch_size)

    def count(self, samples: int) -> int:
        """Return the local steps of a round, K = E ceil(n / B)."""
        return self.steps or self.epochs * self.batches(samples)

    def nominal(self, samples: int) -> float:
        """Return E n / B, which the official FedSMOO code uses as every client's K, with n the images of client 0."""
        return float(self.steps or self.epochs * samples / self.batch_size)


def active_clients(spec: SamplingSettings, clients: int, seed: int, round_: int) -> np.ndarray:
    """Return the sorted ids (n,) of the clients active in round ``round_`` (from 0).

    A function of seed and round alone, equal for all algorithms.

    Schemes of ``spec``: all; bernoulli (each client with probability ``fraction``, redrawn if nobody is active;
    official FedSMOO code, FedSAM section 5.1); fixed (``fraction`` of the clients without replacement; DFedSAM).
    """
    scheme, fraction = spec.scheme, float(spec.fraction or 1.0)
    if scheme == "all":
        return np.arange(clients)
    rng = stream(seed, "sampling", round_)
    if scheme == "fixed":
        return np.sort(rng.choice(clients, max(1, round(fraction * clients)), replace=False))
    active = np.empty(0, dtype=np.int64)
    while not len(active):
        active = np.flatnonzero(rng.uniform(size=clients) <= fraction)
    return active


def most_participants(spec: SamplingSettings, clients: int, seed: int, rounds: int) -> int:
    """Return the largest number of clients active in one of the first ``rounds`` rounds."""
    varies = spec.scheme == "bernoulli"
    return max(len(active_clients(spec, clients, seed, round_)) for round_ in range(rounds if varies else 1))


def longest_first(clients: np.ndarray, sizes: np.ndarray, schedule: Schedule) -> np.ndarray:
    """Return ``clients`` sorted by decreasing step count (stable)."""
    steps = np.array([schedule.count(int(sizes[c])) for c in clients])
    return clients[np.argsort(-steps, kind="stable")]


def plan(
    clients: np.ndarray,
    data: list[np.ndarray],
    schedule: Schedule,
    *,
    seed: int,
    round_: int,
    augmentation: str,
    masks: int = 0,
) -> RoundPlan:
    """Return the plan of a block of ``clients``, sorted by length; ``data[c]`` are the image positions of client c.

    Every epoch is a new permutation of the client's images in batches of B; the last batch is smaller, as in the
    official code. The stream's key is (seed, round, client), or (seed, epoch, client) if epochs continue across rounds:
    independent of the other clients. ``masks``: dropout masks of a step.
    """
    steps = np.array([schedule.count(len(data[c])) for c in clients])
    size = schedule.batch_size
    shape = (len(clients), int(steps[0]), size)
    index = np.empty(shape, dtype=np.int64)
    weight = np.zeros(shape, dtype=np.float64)
    draws = np.zeros((*shape, 4), dtype=np.uint8) if augmentation != "none" else None
    keys = np.zeros((*shape[:2], masks, 2), dtype=np.int32) if masks else None
    for row, client in enumerate(clients):
        length = int(steps[row])
        index[row] = data[client][0]
        index[row, :length], weight[row, :length] = _order(data[client], schedule, seed, round_, int(client))
        if draws is not None:
            generator = stream(seed, "augmentation", round_, client)
            draws[row, :length] = augment.draw(generator, length, size, augmentation)
        if keys is not None:
            keys[row, :length] = dropout.keys(seed, round_, int(client), length, masks)
    return RoundPlan(steps, index, weight, draws, keys)


def _order(
    images: np.ndarray, schedule: Schedule, seed: int, round_: int, client: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (K, B), padded with the first, and weights (K, B) of a round."""
    per_epoch = schedule.batches(len(images))
    if schedule.steps is None:
        generator = stream(seed, "batches", round_, client)
        permutations = [generator.permutation(len(images)) for _ in range(schedule.epochs)]
        skipped, length = 0, schedule.epochs * per_epoch
    else:
        first = round_ * schedule.steps
        epochs = range(first // per_epoch, (first + schedule.steps - 1) // per_epoch + 1)
        permutations = [stream(seed, "batches", epoch, client).permutation(len(images)) for epoch in epochs]
        skipped, length = first % per_epoch, schedule.steps
    size = schedule.batch_size
    padded = np.full((len(permutations), per_epoch * size), images[0])
    padded[:, : len(images)] = images[np.stack(permutations)]
    sizes = np.minimum(size, len(images) - size * np.arange(per_epoch))
    weight = np.tile((np.arange(size) < sizes[:, None]) / sizes[:, None], (len(permutations), 1))
    part = slice(skipped, skipped + length)
    return padded.reshape(-1, size)[part], weight[part]
