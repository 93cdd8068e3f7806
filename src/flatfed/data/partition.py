"""Dealing a dataset to clients: ``results/<scale>/partitions/<protocol>/<split>/seed<k>.npz``."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.data import keys
from flatfed.data.domains import leave_one_out
from flatfed.data.schemes import SCHEMES
from flatfed.data.streams import stream
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, check_place, digest_arrays, write_whole


@dataclass(frozen=True)
class Partition:
    """``indices`` (total,) image positions, client after client; ``offsets`` (clients + 1,); ``test`` (n,) positions
    of the test images; ``class_counts`` (clients, classes); ``spec`` what it was made from; ``client_test`` for every
    client positions of test images drawn to its label distribution (:func:`draw_client_test`), None without them;
    ``validation`` (n,) positions held out of the training images (:func:`hold_out`), None where none are, and
    ``client_validation`` those of them that were each client's own."""

    indices: np.ndarray
    offsets: np.ndarray
    test: np.ndarray
    class_counts: np.ndarray
    spec: dict[str, Any]
    digest: str
    client_test: list[np.ndarray] | None = None
    validation: np.ndarray | None = None
    client_validation: list[np.ndarray] | None = None


def deal(labels: np.ndarray, spec: dict[str, Any]) -> list[np.ndarray]:
    """Return every client's training positions; ``labels`` (n,) of the training images, ``spec`` a partition spec.

    The spec has passed :func:`flatfed.data.keys.check_partition`. Scheme ``domain`` deals by domains instead
    (:func:`flatfed.data.domains.leave_one_out`). A central deal with ``images_of`` has the images of all clients of
    that deal, client after client; an image that was dealt twice is in it twice.
    Raises DataError for what cannot be dealt, with both numbers.
    """
    clients = spec.get("clients", 1)
    if clients > len(labels):
        raise DataError(f"partition: {clients} clients, but {spec['dataset']!r} has {len(labels)} training images")
    if "images_of" in spec:
        return [np.concatenate(deal(labels, keys.pooled(spec)))]
    return SCHEMES[spec["scheme"]](labels, spec)


def draw_client_test(
    labels: np.ndarray, parts: list[np.ndarray], test: np.ndarray, count: int, seed: int
) -> list[np.ndarray]:
    """Return for every client ``count`` positions of test images that follow the label distribution it trains on.

    Each class has its share of the ``count`` images, rounded down; those left over go to the largest remainders, among
    equal ones by lot. They are drawn with replacement from the ``test`` images of that class. FedSAM reports accuracies
    over clients without saying how their test sets were made; this is our reading. Every client has a random stream of
    its own. Raises DataError for a ``count`` above the number of test images, and for a class that
    clients train on and no test image has.
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
        own, rest = np.divmod(count * counts, len(part))
        own[np.lexsort((rng.random(len(rest)), -rest))[: count - own.sum()]] += 1
        drawn.append(np.concatenate([rng.choice(pools[int(c)], n) for c, n in zip(classes, own, strict=True)]))
    return drawn


def hold_out(partition: Partition, labels: np.ndarray, share: float, seed: int) -> Partition:
    """Return ``partition`` with a validation part in place of its test images; ``labels`` (N,) of all images.

    Every client gives up floor(``share`` n) of its n images, drawn by a random stream of its own. An image that several
    clients have (splits with replacement) is then held out of all of them, so that none is both trained and validated
    on. ``validation`` has every image once, in rising order, ``client_validation`` those of each client that it or
    another gave up; ``test`` is empty, ``digest`` still that of the whole.
    Raises DataError where that is no image at all, or where a client is left without one.
    """
    parts = np.split(partition.indices, partition.offsets[1:-1])
    given_up = []
    for client, part in enumerate(parts):
        own = np.unique(part)
        given_up.append(stream(seed, "validation", client).choice(own, int(share * len(own) + 1e-9), replace=False))
    held = np.unique(np.concatenate(given_up))
    if not len(held):
        most = max(len(part) for part in parts)
        raise DataError(f"partition: a validation share of {share:g} holds out no image; clients have at most {most}")
    kept = [part[~np.isin(part, held)] for part in parts]
    sizes = np.array([len(part) for part in kept])
    if not sizes.all():
        client = int(np.argmin(sizes))
        left = f"client {client} none of its {len(parts[client])} images"
        raise DataError(f"partition: a validation share of {share:g} leaves {left}")
    return replace(
        partition,
        indices=np.concatenate(kept),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        test=partition.test[:0],
        class_counts=np.stack([np.bincount(labels[part], minlength=partition.class_counts.shape[1]) for part in kept]),
        client_test=None,
        validation=held,
        client_validation=[np.intersect1d(part, held) for part in parts],
    )


def make(spec: dict[str, Any], dataset: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Deal the dataset in folder ``dataset`` as ``spec`` says and write the .npz file ``out``, whole.

    Raises DataError for an incomplete specification, a dataset that cannot be read or is another one, a deal that is
    impossible, and a place where no file can be written.
    """
    keys.check_partition(spec)
    check_place(out)
    data = datasets.load(dataset)
    if data.name != spec["dataset"]:
        raise DataError(f"{dataset}: holds dataset {data.name!r}, but the partition is of {spec['dataset']!r}")
    if spec.get("classes", data.classes) != data.classes:
        raise DataError(f"{dataset}: holds {data.classes} classes, but the partition is of {spec['classes']}")
    if spec["scheme"] == "domain":
        parts, test = leave_one_out(data.domains, data.domain_names, spec)
    else:
        parts = deal(data.labels[: data.train], spec)
        test = np.arange(data.train, data.train + data.test, dtype=np.int64)
    optional = {}
    if "client_test" in spec:
        drawn = draw_client_test(data.labels, parts, test, spec["client_test"], spec["seed"])
        optional["client_test"] = np.concatenate(drawn).astype(np.int64)
    counts = np.stack([np.bincount(data.labels[part], minlength=data.classes) for part in parts])
    with write_whole(out) as file:
        np.savez(
            file,
            indices=np.concatenate(parts).astype(np.int64),
            offsets=np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64),
            test=test.astype(np.int64),
            class_counts=counts.astype(np.int64),
            **optional,
            spec=np.array(json.dumps({**spec, "dataset_digest": data.digest}, sort_keys=True)),
        )


def load(path: str | os.PathLike[str]) -> Partition:
    """Return the partition in ``path``; DataError where it cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            indices, offsets, test = file["indices"], file["offsets"], file["test"]
            counts, spec = file["class_counts"], json.loads(str(file["spec"]))
            drawn = file["client_test"] if "client_test" in file.files else None
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read as a partition ({error}); delete it to make it again") from error
    sizes, own, wrong = np.diff(offsets), None, ""
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices) or (sizes < 1).any():
        wrong = f"offsets do not fit its {len(indices)} indices"
    elif counts.ndim != 2 or len(counts) != len(sizes) or (counts.sum(axis=1) != sizes).any():
        wrong = f"class_counts do not fit its {len(sizes)} clients"
    elif drawn is not None:
        ends = np.arange(len(sizes) + 1) * int(spec.get("client_test") or 0)
        if drawn.shape != (ends[-1],) or not np.isin(drawn, test).all():
            wrong = "client_test does not fit its test images"
        own = np.split(drawn, ends[1:-1])
    if wrong:
        raise DataError(f"{path}: {wrong}; delete it to make it again")
    digest = digest_arrays(indices=indices, offsets=offsets, test=test, client_test=drawn)
    return Partition(indices, offsets, test, counts, spec, digest, own)
