"""Sorting the images of a source into the order of published runs.

Partitions and batches are positions in this order, which differs between sources. For every position, an order file
holds the rank of its image when the part is sorted by content.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flatfed.data.dataset import Images, Part
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, digest_arrays

PARTS = ("train", "test")


@dataclass(frozen=True)
class Order:
    """The order file ``path``: part -> ``ranks`` (n,), and the dataset's ``digest``."""

    path: str
    ranks: dict[str, np.ndarray]
    digest: str


def read(path: str | os.PathLike[str], where: str) -> Order:
    """Return the order in the file ``path``; DataError, beginning with ``where``, for other files."""
    if not Path(path).is_file():
        raise DataError(f"{where}: {path}: no such file; `python studies/order.py DATASET --out FILE` writes one")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz file")
        with np.load(path, allow_pickle=False) as file:
            ranks = {name: file[name].astype(np.int64) for name in PARTS}
            return Order(str(path), ranks, str(file["digest"]))
    except UNREADABLE as error:
        raise DataError(f"{where}: {path} cannot be read as one that studies/order.py wrote ({error})") from error


def put(images: Images, order: Order, where: str) -> Images:
    """Return ``images`` in ``order``; DataError, beginning with ``where``, if it is the order of other images."""
    parts = []
    for name, part in zip(PARTS, (images.train, images.test), strict=True):
        ranks = order.ranks[name]
        if len(part.labels) != len(ranks):
            raise DataError(f"{where}: {order.path} orders {len(ranks)} {name} images, not {len(part.labels)}")
        positions = np.take(by_content(part), ranks, mode="clip")  # the digest shows wrong ranks
        arrays = (part.images, part.labels, part.domains)
        parts.append(Part(*(None if array is None else array[positions] for array in arrays)))
    ordered = replace(images, train=parts[0], test=parts[1])
    train, test = ordered.train.images, ordered.test.images
    digest = train.shape[1:] == test.shape[1:] and digest_arrays(
        images=np.concatenate([train, test]), labels=ordered.labels, domains=ordered.domains
    )
    if digest != order.digest:
        remedy = "remove `order` to use these images in their present order"
        raise DataError(f"{where}: {order.path} was written for other images than those of the source; {remedy}")
    return ordered


def by_content(part: Part) -> np.ndarray:
    """Return a part's positions (n,), sorted by SHA-256 of pixels (C, H, W), label and domain."""
    labels = np.asarray(part.labels, dtype="<i8")
    domains = np.zeros_like(labels) if part.domains is None else np.asarray(part.domains, dtype="<i8")
    facts = np.stack([labels, domains], axis=1)
    keys = [
        hashlib.sha256(image.tobytes() + fact.tobytes()).digest()
        for image, fact in zip(part.images, facts, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
