"""How a dataset is dealt to clients: one function a scheme, all with equal client sizes.

Two samplers. ``keyed`` (default) draws from our own streams, N // m images a client, the remainder unused. ``official``
follows the official FedSMOO/FedLESAM code draw by draw with NumPy's legacy generator, to the same class totals;
there the first client also takes the remainder.

"With replacement" means what the official code does: every class is a pool that is walked through and, once exhausted,
walked through again. Images repeat within and across clients, some are never used, and class totals become unequal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from flatfed.data.streams import stream
from flatfed.errors import DataError

#: Exchanges tried for every shard.
SWEEPS = 100

Scheme = Callable[[np.ndarray, dict[str, Any]], list[np.ndarray]]


def central(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """One client with all data, each image once."""
    return [np.arange(len(labels), dtype=np.int64)]


def iid(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """A random deal; with ``balanced`` every client gets the same number of every class, up to one.

    The official code balances classes on CIFAR-100 alone, where it sorts by class with ties in no fixed order.
    """
    clients = spec["clients"]
    balanced = "class-balanced deal that can be repeated" if spec.get("balanced", False) else None
    if _official(spec, lacking=balanced):
        order = np.random.RandomState(spec["seed"]).permutation(len(labels))
        ends = np.cumsum(_official_sizes(len(labels), clients))
        return list(np.split(order, ends[:-1]))
    order = stream(spec["seed"], "partition").permutation(len(labels))
    if spec.get("balanced", False):
        order = order[np.argsort(labels[order], kind="stable")]
    size = len(labels) // clients
    return [order[client : size * clients : clients] for client in range(clients)]


def dirichlet(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """Client i's class shares are drawn from Dirichlet(alpha, ..., alpha); then its images class by class.

    FedSMOO section 5.1 with replacement (class pools), DFedSAM's predecessor DisPFL without: an exhausted class is
    taken out of everybody's shares.
    """
    classes, alpha = spec["classes"], float(spec["alpha"])
    concentration, replacement = np.full(classes, alpha), spec.get("replacement", True)
    if _official(spec, lacking=None if replacement else "Dirichlet deal without replacement"):
        return _official_pools(labels, spec, lambda rng: rng.dirichlet(concentration, spec["clients"]))
    rng = stream(spec["seed"], "partition")
    shares = rng.dirichlet(concentration, spec["clients"])
    return (_pools if replacement else _without_replacement)(labels, shares, rng)


def pathological(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """Every client has ``classes_per_client`` random classes in equal shares, from class pools (FedSMOO app. B.2)."""
    classes, kept = spec["classes"], spec["classes_per_client"]
    if kept > classes:
        raise DataError(f"partition: classes_per_client: {kept} is more than the {classes} classes")
    mask = np.zeros((spec["clients"], classes))
    mask[:, :kept] = 1 / kept

    def shares(rng: Any) -> np.ndarray:
        drawn = mask.copy()
        for row in drawn:
            rng.shuffle(row)
        return drawn

    if _official(spec):
        return _official_pools(labels, spec, shares)
    rng = stream(spec["seed"], "partition")
    return _pools(labels, shares(rng), rng)


def shards(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """Images sorted by class, in clients x ``shards_per_client`` equal shards dealt at random.

    ``assignment``: ``different_classes``, no client has two shards of one class ("2 partitions from 2 classes", DFedSAM
    app. C): a random permutation on that condition; ``permutation``, any shards (McMahan et al. 2017, section 3), which
    leaves some clients of two shards a single class.
    """
    _official(spec, lacking="shards")
    clients, each, assignment = spec["clients"], spec["shards_per_client"], spec["assignment"]
    size = len(labels) // (clients * each)
    if size == 0:
        raise DataError(f"partition: {clients} clients x {each} shards are more than the {len(labels)} training images")
    rng = stream(spec["seed"], "partition")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    pieces = order[: clients * each * size].reshape(clients * each, size)
    if assignment == "permutation":
        dealt = rng.permutation(clients * each).reshape(clients, each)
    else:
        dealt = _of_different_classes([np.unique(labels[piece]).tolist() for piece in pieces], clients, rng)
    return [pieces[own].reshape(-1) for own in dealt]


def _of_different_classes(classes: list[list[int]], clients: int, rng: np.random.Generator) -> np.ndarray:
    """Return shards (clients, each), no class twice on a client; ``classes`` of every shard, in the order of classes.

    Shard s goes to client s mod ``clients`` first. A class fills shards that follow one another: where they are no more
    than the clients, nobody has two of them; where they are more, nobody can avoid it. Then pairs of shards drawn at
    random change clients, SWEEPS for every shard, where both clients still have no class twice. Either way round is as
    likely, so that the chain tends to the uniform distribution over what can be reached: where every shard is of one
    class, over all such deals (Ryser 1957: their matrices of clients and classes are connected by such exchanges). The
    clients are permuted at the end, so that all have the same distribution however far the chain has come.
    Raises DataError for a class with more shards than clients.
    """
    shards = len(classes)
    counts = Counter(label for own in classes for label in own)
    label, most = max(counts.items(), key=lambda pair: (pair[1], -pair[0]))
    if most > clients:
        raise DataError(
            f"partition: shards_per_client: {shards // clients} for {clients} clients: images of class {label} lie in "
            f"{most} of the {shards} shards, more than there are clients to have one each; take fewer shards, more "
            f"clients, or assignment: permutation"
        )
    marks = [sum(1 << label for label in own) for own in classes]
    place = list(range(shards))
    held = [sum(marks[client::clients]) for client in range(clients)]
    for _ in range(SWEEPS):
        for one, other in rng.integers(shards, size=(shards, 2)).tolist():
            here, there = one % clients, other % clients
            mine, theirs = marks[place[one]], marks[place[other]]
            kept, left = held[here] ^ mine, held[there] ^ theirs
            if not (kept & theirs or left & mine):
                held[here], held[there] = kept | theirs, left | mine
                place[one], place[other] = place[other], place[one]
    return np.array(place).reshape(-1, clients).T[rng.permutation(clients)]


def _official(spec: dict[str, Any], lacking: str | None = None) -> bool:
    """Return whether the official sampler is asked for; DataError if it is and has no deal as ``lacking``."""
    asked = spec.get("sampler", "keyed") == "official"
    if asked and lacking:
        raise DataError(f"partition: sampler: the official code has no {lacking}; allowed here: keyed")
    return asked


def _official_sizes(count: int, clients: int) -> np.ndarray:
    """Equal sizes, the remainder to the first client."""
    sizes = np.full(clients, count // clients)
    sizes[0] += count % clients
    return sizes


def _class_positions(labels: np.ndarray, shares: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    """Return every class's positions in the order of ``order``, a permutation of all positions.

    Raises DataError for a class without images that some client should have, and for shares that are not numbers
    (Dirichlet draws of a vanishing alpha).
    """
    if not np.isfinite(shares).all():
        raise DataError("partition: alpha is so small that class shares underflow; take a larger one")
    pools = [order[labels[order] == c] for c in range(shares.shape[1])]
    for c, pool in enumerate(pools):
        if not len(pool) and shares[:, c].any():
            raise DataError(f"partition: class {c} of {shares.shape[1]} has no training image")
    return pools


def _draw_classes(shares: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return classes (clients, size), independent draws from every client's shares (clients, classes)."""
    bounds = np.cumsum(shares, axis=1)
    bounds /= bounds[:, -1:]
    draws = rng.random((len(shares), size))
    return np.stack([np.searchsorted(row, draw, side="right") for row, draw in zip(bounds, draws, strict=True)])


def _pools(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal from class pools that are walked through again and again, clients taking turns at random."""
    size = len(labels) // len(shares)
    pools = _class_positions(labels, shares, np.arange(len(labels)))
    wanted = _draw_classes(shares, size, rng).reshape(-1)
    turns = rng.permutation(len(wanted))
    dealt = np.empty(len(wanted), dtype=np.int64)
    for c, pool in enumerate(pools):
        asking = turns[wanted[turns] == c]
        if len(asking):
            dealt[asking] = np.resize(rng.permutation(pool), len(asking))
    return list(dealt.reshape(len(shares), size))


def _without_replacement(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal every image at most once, clients taking turns at random; an exhausted class leaves everybody's shares.

    A client whose classes are all exhausted takes from the others in proportion to what is left, so the deal ends.
    """
    size = len(labels) // len(shares)
    pools = [list(rng.permutation(pool)) for pool in _class_positions(labels, shares, np.arange(len(labels)))]
    left = np.array([len(pool) for pool in pools], dtype=float)
    clients = rng.permutation(np.repeat(np.arange(len(shares)), size))
    draws = rng.random(len(clients))
    parts: list[list[int]] = [[] for _ in shares]
    bounds = np.cumsum(shares, axis=1)
    for client, draw in zip(clients.tolist(), draws.tolist(), strict=True):
        bound = bounds[client]
        if bound[-1] <= 1e-12:
            bound = np.cumsum(left)
        c = int(np.searchsorted(bound, draw * bound[-1], side="right"))
        parts[client].append(int(pools[c].pop()))
        left[c] -= 1
        if not left[c]:
            bounds = np.cumsum(np.where(left > 0, shares, 0.0), axis=1)
    return [np.array(part, dtype=np.int64) for part in parts]


def _official_pools(
    labels: np.ndarray, spec: dict[str, Any], shares: Callable[[np.random.RandomState], np.ndarray]
) -> list[np.ndarray]:
    """Deal from class pools in the official order of draws.

    A permutation of the data, the shares, then for every image a client that is not full, a class by its cumulative
    shares, and the last unused position of that class's pool; a pool found empty is refilled and the class redrawn.
    """
    rng = np.random.RandomState(spec["seed"])
    order = rng.permutation(len(labels))
    room = _official_sizes(len(labels), spec["clients"])
    drawn = shares(rng)
    pools = _class_positions(labels, drawn, order)
    bounds = np.where(drawn > 0, np.cumsum(drawn, axis=1), 0.0)
    left = [len(pool) for pool in pools]
    parts = [np.empty(size, dtype=np.int64) for size in room]
    missing = int(room.sum())
    while missing:
        client = rng.randint(spec["clients"])
        if not room[client]:
            continue
        room[client] -= 1
        missing -= 1
        while True:
            c = int(np.argmax(rng.uniform() <= bounds[client]))
            if left[c]:
                break
            left[c] = len(pools[c])
        left[c] -= 1
        parts[client][room[client]] = pools[c][left[c]]
    return parts


SCHEMES: dict[str, Scheme] = {scheme.__name__: scheme for scheme in (central, iid, dirichlet, pathological, shards)}

#: Increased when a scheme deals otherwise (:mod:`flatfed.engine.versions`). Scheme domain is in flatfed.data.domains.
VERSIONS = dict.fromkeys((*SCHEMES, "domain"), 1)
