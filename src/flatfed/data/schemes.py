"""Partition schemes, one function each; all clients have the same number of images.

The rest of N / m stays unused; in the official FedSMOO code, the first client gets it.

"With replacement" is the official code's rule: clients take the images of a class in turn, and an exhausted class
starts again.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from flatfed.data.keys import PartitionSpecification
from flatfed.data.streams import stream
from flatfed.errors import DataError

#: Attempted exchanges per shard.
SWEEPS = 100

#: Clients of a group, and the most draws for it.
GROUP, MOST_DRAWS = 10, 100_000


def central(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Give one client every image once."""
    return [np.arange(len(labels), dtype=np.int64)]


def iid(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Partition at random."""
    clients = spec.clients
    order = stream(spec.seed, "partition").permutation(len(labels))
    size = len(labels) // clients
    return [order[client : size * clients : clients] for client in range(clients)]


def dirichlet(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Draw images by class shares from Dirichlet(alpha, ..., alpha), with replacement (FedSMOO) or without (DisPFL)."""
    rng = stream(spec.seed, "partition")
    shares = rng.dirichlet(np.full(spec.classes, float(spec.alpha)), spec.clients)
    return (_without_replacement if spec.replacement is False else _pools)(labels, shares, rng)


def grouped_dirichlet(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Divide the images among groups of ten clients, then each class within a group; no image twice (FL-SAM@2c16149).

    The shares of a class are Dirichlet(alpha) over the clients of the group that have less than an equal part of its
    images. A group is drawn again until each client has half of that. At last all images, client after client, are
    cut into equal parts, so a client may have some of its neighbour's.
    """
    rng, clients = stream(spec.seed, "partition"), spec.clients
    groups = [min(GROUP, clients - start) for start in range(0, clients, GROUP)]
    images = rng.permutation(len(labels))[: len(labels) // clients * clients]
    parts = np.split(images, np.cumsum(groups)[:-1] * (len(images) // clients))
    dealt = [_group(labels, part, size, spec, rng) for part, size in zip(parts, groups, strict=True)]
    return list(np.concatenate(dealt).reshape(clients, -1))


def pathological(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Give every client ``classes_per_client`` random classes in equal shares (FedSMOO app. B.2)."""
    rng, kept = stream(spec.seed, "partition"), spec.classes_per_client
    shares = np.zeros((spec.clients, spec.classes))
    shares[:, :kept] = 1 / kept
    for row in shares:
        rng.shuffle(row)
    return _pools(labels, shares, rng)


def shards(labels: np.ndarray, spec: PartitionSpecification) -> list[np.ndarray]:
    """Sort the images by class, cut them into equal shards, and give ``shards_per_client`` to every client.

    ``assignment``: ``different_classes``, no client has a class twice (DFedSAM app. C), or ``permutation`` (McMahan et
    al. 2017, section 3).
    """
    clients, per_client = spec.clients, spec.shards_per_client
    size, rng = len(labels) // (clients * per_client), stream(spec.seed, "partition")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    pieces = order[: clients * per_client * size].reshape(clients * per_client, size)
    if spec.assignment == "permutation":
        assigned = rng.permutation(clients * per_client).reshape(clients, per_client)
    else:
        assigned = _of_different_classes([np.unique(labels[piece]).tolist() for piece in pieces], clients, rng)
    return [pieces[indices].reshape(-1) for indices in assigned]


def _of_different_classes(classes: list[list[int]], clients: int, rng: np.random.Generator) -> np.ndarray:
    """Return shard numbers (clients, shards per client) such that no client has a class twice.

    ``classes``: those of every shard, sorted. Shard s starts at client s mod ``clients``, which is valid. Then random
    pairs of shards change clients if the result is valid. This chain is symmetric and tends to the uniform distribution
    over reachable assignments: all, if each shard has one class (Ryser 1957).

    :raises DataError: a class has more shards than clients.
    """
    shards = len(classes)
    counts = Counter(label for shard_classes in classes for label in shard_classes)
    label, most = max(counts.items(), key=lambda pair: (pair[1], -pair[0]))
    if most > clients:
        raise DataError(
            f"partition: shards_per_client: {shards // clients} for {clients} clients: images of class {label} are in "
            f"{most} of the {shards} shards, more than there are clients; take fewer shards, more clients, or "
            f"assignment: permutation"
        )
    # Sets of classes are bit masks: of each shard, and of each client's shards.
    masks = [sum(1 << label for label in shard_classes) for shard_classes in classes]
    shard_at = list(range(shards))  # slot -> shard; slot s belongs to client s mod clients
    client_masks = [sum(masks[client::clients]) for client in range(clients)]
    for _ in range(SWEEPS):
        for slot_a, slot_b in rng.integers(shards, size=(shards, 2)).tolist():
            a, b = slot_a % clients, slot_b % clients
            mask_a, mask_b = masks[shard_at[slot_a]], masks[shard_at[slot_b]]
            rest_a, rest_b = client_masks[a] ^ mask_a, client_masks[b] ^ mask_b
            if not (rest_a & mask_b or rest_b & mask_a):
                client_masks[a], client_masks[b] = rest_a | mask_b, rest_b | mask_a
                shard_at[slot_a], shard_at[slot_b] = shard_at[slot_b], shard_at[slot_a]
    # A permutation gives all clients the same distribution, even if the chain has not mixed.
    return np.array(shard_at).reshape(-1, clients).T[rng.permutation(clients)]


def _group(
    labels: np.ndarray, images: np.ndarray, clients: int, spec: PartitionSpecification, rng: np.random.Generator
) -> np.ndarray:
    """Return the ``images`` of a group of ``clients``, client after client."""
    equal = len(images) / clients
    for _ in range(MOST_DRAWS):
        parts: list[list[int]] = [[] for _ in range(clients)]
        for label in range(spec.classes):
            of_class = images[labels[images] == label]
            shares = rng.dirichlet(np.full(clients, float(spec.alpha))) * [len(part) < equal for part in parts]
            if not shares.sum() > 0:  # all that the class would go to are full
                break
            ends = (np.cumsum(shares / shares.sum()) * len(of_class)).astype(int)
            for part, own in zip(parts, np.split(of_class, ends[:-1]), strict=True):
                part += own.tolist()
        else:
            if min(map(len, parts)) >= int(equal / 2):
                return np.array([image for part in parts for image in part], dtype=np.int64)
    raise DataError(
        f"partition: alpha: with {spec.alpha:g}, {MOST_DRAWS} draws left a client without half of an equal part; take "
        "a larger one"
    )


def _class_positions(labels: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Return every class's positions; DataError for an empty class."""
    pools = [np.flatnonzero(labels == c) for c in range(shares.shape[1])]
    for c, pool in enumerate(pools):
        if not len(pool) and shares[:, c].any():
            raise DataError(f"partition: class {c} of {shares.shape[1]} has no training image")
    return pools


def _draw_classes(shares: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return classes (clients, size), drawn from ``shares`` (clients, classes)."""
    bounds = np.cumsum(shares, axis=1)
    bounds /= bounds[:, -1:]
    draws = rng.random((len(shares), size))
    return np.stack([np.searchsorted(row, draw, side="right") for row, draw in zip(bounds, draws, strict=True)])


def _pools(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Give images with replacement, to clients in random turns."""
    size = len(labels) // len(shares)
    pools = _class_positions(labels, shares)
    classes = _draw_classes(shares, size, rng).reshape(-1)
    turns = rng.permutation(len(classes))
    positions = np.empty(len(classes), dtype=np.int64)
    for c, pool in enumerate(pools):
        slots = turns[classes[turns] == c]
        if len(slots):
            positions[slots] = np.resize(rng.permutation(pool), len(slots))
    return list(positions.reshape(len(shares), size))


def _without_replacement(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Give every image at most once, to clients in random turns; exhausted classes leave all clients' shares."""
    size = len(labels) // len(shares)
    pools = [list(rng.permutation(pool)) for pool in _class_positions(labels, shares)]
    remaining = np.array([len(pool) for pool in pools], dtype=float)
    clients = rng.permutation(np.repeat(np.arange(len(shares)), size))
    draws = rng.random(len(clients))
    parts: list[list[int]] = [[] for _ in shares]
    bounds = np.cumsum(shares, axis=1)
    for client, draw in zip(clients.tolist(), draws.tolist(), strict=True):
        bound = bounds[client]
        if bound[-1] <= 1e-12:  # all classes of the client are exhausted
            bound = np.cumsum(remaining)
        c = int(np.searchsorted(bound, draw * bound[-1], side="right"))
        parts[client].append(int(pools[c].pop()))
        remaining[c] -= 1
        if not remaining[c]:
            bounds = np.cumsum(np.where(remaining > 0, shares, 0.0), axis=1)
    return [np.array(part, dtype=np.int64) for part in parts]


#: Scheme -> function of the training labels (n,) and the specification -> the positions of each client.
SCHEMES = {scheme.__name__: scheme for scheme in (central, iid, dirichlet, grouped_dirichlet, pathological, shards)}

#: Versions (:mod:`flatfed.runs.versions`): increase one when its partitions change.
VERSIONS = dict.fromkeys((*SCHEMES, "domain"), 1)
