"""Partitions of a dataset over clients: ``results/<scale>/partitions/<protocol>/<split>/seed<k>.npz``.

A file holds the arrays of :class:`Partition`, its ``spec`` as JSON, and ``sha256`` of all of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.data import keys
from flatfed.data.schemes import SCHEMES
from flatfed.data.streams import stream
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, digest_arrays, write_whole

#: Uses of one image that are worth a note.
NOTED_USES = 10


@dataclass(frozen=True)
class Partition:
    """Positions of the clients' images and of the evaluation sets in the dataset.

    ``indices`` (total,), client after client; ``offsets`` (clients + 1,); ``test`` (n,); ``class_counts`` (clients,
    classes); ``client_test``: :func:`draw_client_test`; ``validation``, ``client_validation``: :func:`hold_out`.
    """

    indices: np.ndarray
    offsets: np.ndarray
    test: np.ndarray
    class_counts: np.ndarray
    spec: dict[str, Any]
    digest: str
    client_test: list[np.ndarray] | None = None
    validation: np.ndarray | None = None
    client_validation: list[np.ndarray] | None = None


def assign(labels: np.ndarray, spec: keys.PartitionSpecification) -> list[np.ndarray]:
    """Return every client's positions among the training ``labels`` (n,), for all schemes but ``domain``.

    With ``images_of``, the central client has the images of all clients of that partition, repeated ones included.

    :raises DataError: the images do not fit it.
    """
    if spec.images_of:
        shared = spec.model_dump(exclude_unset=True, include={"dataset", "classes", "seed"})
        return [np.concatenate(assign(labels, keys.check_partition({**shared, **spec.images_of})))]
    return SCHEMES[spec.scheme](labels, spec)


def leave_one_out(
    numbers: np.ndarray, names: Sequence[str], spec: keys.PartitionSpecification
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return every client's training positions, and those of one domain as test set (FedLESAM section 6.1).

    ``numbers`` (n,): index of every image's domain in ``names``. ``clients_per_domain`` clients share each other
    domain evenly and at random, in the same way for every ``held_out``.

    :raises DataError: a domain has too few images.
    """
    rng, parts = stream(spec.seed, "partition"), []
    for number, name in enumerate(names):
        members, clients = rng.permutation(np.flatnonzero(numbers == number)), spec.clients_per_domain
        if len(members) < (1 if number == spec.held_out else clients):
            domain = f"domain {name!r} of dataset {spec.dataset!r}"
            raise DataError(f"partition: clients_per_domain: {clients}, but {domain} has {len(members)} images")
        if number != spec.held_out:
            parts += np.array_split(members, clients)
    return parts, np.flatnonzero(numbers == spec.held_out)


def draw_client_test(
    labels: np.ndarray, parts: list[np.ndarray], test: np.ndarray, count: int, seed: int
) -> list[np.ndarray]:
    """Return ``count`` test positions for every client, with the label distribution of its training images.

    FedSAM does not describe its clients' test sets; this is our reading. Classes are rounded by largest remainders;
    images are drawn with replacement.

    :raises DataError: there are fewer than ``count`` test images, or none of a client's class.
    """
    if count > len(test):
        raise DataError(f"partition: client_test: {count} for each client, more than the {len(test)} test images")
    pools = {int(c): test[labels[test] == c] for c in np.unique(labels[np.concatenate(parts)])}
    absent = [c for c, pool in pools.items() if not len(pool)]
    if absent:
        raise DataError(f"partition: client_test: clients train on class {absent[0]}, but no test image is of it")
    drawn = []
    for client, part in enumerate(parts):
        rng = stream(seed, "client_test", client)
        classes, counts = np.unique(labels[part], return_counts=True)
        sizes, remainders = np.divmod(count * counts, len(part))
        sizes[np.lexsort((rng.random(len(remainders)), -remainders))[: count - sizes.sum()]] += 1
        drawn.append(np.concatenate([rng.choice(pools[int(c)], size) for c, size in zip(classes, sizes, strict=True)]))
    return drawn


def hold_out(partition: Partition, labels: np.ndarray, share: float, seed: int) -> Partition:
    """Return ``partition`` with validation images instead of test images; ``labels`` (N,) of all images.

    Each client draws floor(``share`` n) of its n images, which leave the training images of all clients.
    ``validation``: all drawn images, sorted; ``client_validation``: the client's images among them.

    :raises DataError: no image is held out, or a client keeps none.
    """
    parts = np.split(partition.indices, partition.offsets[1:-1])
    drawn = []
    for client, part in enumerate(parts):
        images = np.unique(part)
        count = int(share * len(images) + 1e-9)
        drawn.append(stream(seed, "validation", client).choice(images, count, replace=False))
    held = np.unique(np.concatenate(drawn))
    if not len(held):
        most = max(len(part) for part in parts)
        raise DataError(f"partition: a validation share of {share:g} holds out no image; clients have at most {most}")
    kept = [part[~np.isin(part, held)] for part in parts]
    if (client := next((client for client, part in enumerate(kept) if not len(part)), None)) is not None:
        loser = f"client {client} none of its {len(parts[client])} images"
        raise DataError(f"partition: a validation share of {share:g} leaves {loser}")
    arrays = _arrays(kept, partition.test[:0], labels, partition.class_counts.shape[1])
    of_clients = [np.intersect1d(part, held) for part in parts]
    return replace(partition, **arrays, client_test=None, validation=held, client_validation=of_clients)


def _arrays(parts: list[np.ndarray], test: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    """Return the arrays of a partition of images with ``labels`` (N,), from the clients' positions ``parts``."""
    return {
        "indices": np.concatenate(parts),
        "offsets": np.cumsum([0, *map(len, parts)]),
        "test": test,
        "class_counts": np.stack([np.bincount(labels[part], minlength=classes) for part in parts]),
    }


def make(content: Mapping[str, Any], dataset: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Partition the dataset in the folder ``dataset`` by a specification, JSON; write the .npz file ``out`` atomically.

    :raises DataError: the specification is wrong, impossible or of another dataset, or a file is unusable or altered.
    """
    spec = keys.check_partition(content)
    data = datasets.load(dataset)
    if data.name != spec.dataset:
        raise DataError(f"{dataset}: holds dataset {data.name!r}, but the partition is of {spec.dataset!r}")
    datasets.verify(dataset)
    if spec.scheme == "domain":
        parts, test = leave_one_out(data.domains, data.domain_names, spec)
    else:
        parts = assign(data.labels[: data.train], spec)
        if not all(map(len, parts)):
            raise DataError(f"partition: {len(parts)} clients, but {dataset} has {data.train} training images")
        test = np.arange(data.train, data.train + data.test, dtype=np.int64)
    arrays = _arrays(parts, test, data.labels, data.classes)
    if spec.client_test:
        drawn = draw_client_test(data.labels, parts, test, spec.client_test, spec.seed)
        arrays["client_test"] = np.concatenate(drawn)
    write(out, arrays, {**spec.as_written(), "dataset_digest": data.digest})
    if counts := repetition(parts):
        print(f"partition: {repetition_text(counts)}", file=sys.stderr)


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], spec: Mapping[str, Any]) -> None:
    """Write the partition of ``arrays`` and ``spec`` to the .npz file ``path``, atomically."""
    content = {name: array.astype(np.int64) for name, array in arrays.items()}
    content["spec"] = np.array(json.dumps(spec, sort_keys=True))
    with write_whole(path) as file:
        np.savez(file, **content, sha256=np.array(digest_arrays(**content)))


def load(path: str | os.PathLike[str]) -> Partition:
    """Return the partition in ``path``; DataError if it is absent, unreadable or changed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            content = dict(file)
        if content.pop("sha256", None) != digest_arrays(**content):
            raise ValueError("changed after it was written: its sha256 is missing or not that of its arrays")
        spec = json.loads(str(content.pop("spec")))
    except FileNotFoundError:
        raise DataError(f"{path}: does not exist; build it: snakemake --cores 1 -- {path}") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read as a partition ({error}); delete it to rebuild it") from error
    counts, drawn = content.pop("class_counts"), content.pop("client_test", None)
    digest = digest_arrays(**content, client_test=drawn)
    client_test = None if drawn is None else np.split(drawn, len(counts))
    return Partition(**content, class_counts=counts, spec=spec, digest=digest, client_test=client_test)


def repetition(parts: Sequence[np.ndarray]) -> dict[str, int] | None:
    """Return the ``uses`` of the most used image by all clients, and the fewest ``distinct`` images of a client.

    ``parts``: the clients' positions. None below ``NOTED_USES``. With replacement, clients take the images of a small
    class again and again.
    """
    uses = int(np.bincount(np.concatenate(parts)).max())
    return {"uses": uses, "distinct": min(len(np.unique(part)) for part in parts)} if uses >= NOTED_USES else None


def repetition_text(counts: Mapping[str, int]) -> str:
    return f"an image is used {counts['uses']} times; each client has at least {counts['distinct']} distinct images"
