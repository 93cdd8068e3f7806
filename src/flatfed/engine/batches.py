"""The plan of a round: which images every active client sees at every local step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from flatfed.data import augment
from flatfed.data.streams import stream
from flatfed.engine import dropout


@dataclass(frozen=True)
class RoundPlan:
    """Index plan of the rows of one block, rows sorted by falling number of steps.

    ``steps`` (rows,) true local steps K_i = E ceil(n_i / B); ``index`` (rows, K, B) positions in the image array,
    padded with a valid one; ``weight`` (rows, K, B) 1 / (batch size), 0 where padded;
    ``draws`` (rows, K, B, 4) augmentation draws or None; ``keys`` (rows, K, sites, 2) those of dropout masks or None.
    """

    steps: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    draws: np.ndarray | None
    keys: np.ndarray | None

    @cached_property
    def width(self) -> np.ndarray:
        """Widest real batch of every step, (K,)."""
        return (self.weight > 0).sum(axis=2).max(axis=0)

    def rows(self, step: int) -> int:
        """Return how many rows, from the first, still train at ``step``."""
        return int(np.searchsorted(-self.steps, -step, side="left"))

    @property
    def length(self) -> int:
        """Number of local steps of the longest row."""
        return int(self.steps[0])


@dataclass(frozen=True)
class Schedule:
    """How long a client trains in a round: ``epochs`` E over its images in batches of ``batch_size`` B.

    Where ``steps`` is given a round has that many steps instead, and epochs go on from round to round: centralised
    training, where a round is shorter than an epoch.
    """

    batch_size: int
    epochs: int
    steps: int | None = None

    @classmethod
    def of(cls, description: dict[str, Any]) -> Schedule:
        """Return the schedule of a run ``description``."""
        return cls(description["batch_size"], description["local_epochs"], description.get("local_steps"))

    def batches(self, samples: int) -> int:
        """Return ceil(n / B), the batches of an epoch: the last, smaller one is a step like the others."""
        return -(-samples // self.batch_size)

    def count(self, samples: int) -> int:
        """Return the local steps of a round, K = E ceil(n / B)."""
        return self.steps or self.epochs * self.batches(samples)

    def nominal(self, samples: int) -> float:
        """Return E n / B, which the official FedSMOO code takes for every client's K, with n the images of client 0."""
        return float(self.steps or self.epochs * samples / self.batch_size)


def by_length(clients: np.ndarray, sizes: np.ndarray, schedule: Schedule) -> np.ndarray:
    """Return ``clients`` sorted by falling step count (stable), so that rows that end early are the last ones."""
    steps = np.array([schedule.count(int(sizes[c])) for c in clients])
    return clients[np.argsort(-steps, kind="stable")]


def plan(
    clients: np.ndarray,
    data: list[np.ndarray],
    schedule: Schedule,
    *,
    seed: int,
    round_: int,
    augmented: bool,
    masks: int = 0,
) -> RoundPlan:
    """Return the plan of one block of ``clients``, already sorted by length; ``data[c]`` client c's image positions.

    ``masks``: how many dropout masks a step takes.

    Every epoch is a fresh permutation of the client's images cut into batches of B, the last one smaller, as the
    official code's loader without drop_last. Keyed by (seed, round, client), or by (seed, epoch, client) where epochs
    go on from round to round: independent of who else is active.
    """
    steps = np.array([schedule.count(len(data[c])) for c in clients])
    size = schedule.batch_size
    shape = (len(clients), int(steps[0]), size)
    index = np.empty(shape, dtype=np.int64)
    weight = np.zeros(shape, dtype=np.float64)
    draws = np.zeros((*shape, 4), dtype=np.uint8) if augmented else None
    keys = np.zeros((*shape[:2], masks, 2), dtype=np.int32) if masks else None
    for row, client in enumerate(clients):
        own, length = data[client], int(steps[row])
        index[row], weight[row] = own[0], 0
        order, mean = _order(own, schedule, seed, round_, int(client))
        index[row, :length], weight[row, :length] = order, mean
        if draws is not None:
            generator = stream(seed, "augmentation", round_, client)
            draws[row, :length] = augment.draw(generator, length * size).reshape(length, size, 4)
        if keys is not None:
            keys[row, :length] = dropout.keys(seed, round_, int(client), length, masks)
    return RoundPlan(steps, index, weight, draws, keys)


def merged(plans: list[RoundPlan]) -> tuple[RoundPlan, np.ndarray]:
    """Return one plan of the rows of all ``plans``, and which of them, counted from plan to plan, each row is."""
    longest = max(plan.index.shape[1] for plan in plans)

    def joined(name: str) -> np.ndarray | None:
        parts = [getattr(plan, name) for plan in plans]
        if parts[0] is None:
            return None
        if name != "steps":  # steps past a row's end do not count, but index real images
            ends = [[(0, 0), (0, longest - part.shape[1]), *[(0, 0)] * (part.ndim - 2)] for part in parts]
            parts = [np.pad(part, end) for part, end in zip(parts, ends, strict=True)]
        return np.concatenate(parts)

    order = np.argsort(-joined("steps"), kind="stable")
    values = {field.name: joined(field.name) for field in fields(RoundPlan)}
    return RoundPlan(**{name: None if value is None else value[order] for name, value in values.items()}), order


def _order(own: np.ndarray, schedule: Schedule, seed: int, round_: int, client: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (K, B), padded with the first, and weights (K, B) of one client's round."""
    per_epoch = schedule.batches(len(own))
    if schedule.steps is None:
        generator = stream(seed, "batches", round_, client)
        permutations = [generator.permutation(len(own)) for _ in range(schedule.epochs)]
        skipped, length = 0, schedule.epochs * per_epoch
    else:
        first = round_ * schedule.steps
        epochs = range(first // per_epoch, (first + schedule.steps - 1) // per_epoch + 1)
        permutations = [stream(seed, "batches", epoch, client).permutation(len(own)) for epoch in epochs]
        skipped, length = first % per_epoch, schedule.steps
    size = schedule.batch_size
    padded = np.full((len(permutations), per_epoch * size), own[0])
    padded[:, : len(own)] = own[np.stack(permutations)]
    sizes = np.minimum(size, len(own) - size * np.arange(per_epoch))
    weight = np.tile((np.arange(size) < sizes[:, None]) / sizes[:, None], (len(permutations), 1))
    part = slice(skipped, skipped + length)
    return padded.reshape(-1, size)[part], weight[part]
