"""The order of a data set's images, so that those of another source can be put into that of published runs.

Which images a client gets, and which a batch holds, are places in that order, and sources differ in it. A file of an
order holds for every place the rank of its image among all of the part, sorted by what they show; not the images.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.data.dataset import Images, Part
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, digest_arrays

PARTS = ("train", "test")


@dataclass(frozen=True)
class Order:
    """What the file ``path`` says: ``ranks`` (n,) of the images of each part, and the ``digest`` of the dataset."""

    path: str
    ranks: dict[str, np.ndarray]
    digest: str


def read(path: str | os.PathLike[str], where: str) -> Order:
    """Return the order in the file ``path``; DataError, which begins with ``where``, where it holds none."""
    if not Path(path).is_file():
        raise DataError(f"{where}: {path}: no such file; `python studies/order.py DATASET --out FILE` writes one")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz file")
        with np.load(path, allow_pickle=False) as file:
            ranks, digest = {name: np.asarray(file[name]) for name in PARTS}, np.asarray(file["digest"])
        for name, each in ranks.items():
            whole = each.ndim == 1 and np.issubdtype(each.dtype, np.integer)
            if not whole or not np.array_equal(np.sort(each), np.arange(len(each))):
                raise ValueError(f"{name} does not name every place once")
        if digest.shape or digest.dtype.kind != "U":
            raise ValueError("digest is not a text")
    except UNREADABLE as error:
        raise DataError(f"{where}: {path} cannot be read as one that studies/order.py wrote ({error})") from error
    return Order(str(path), ranks, str(digest))


def put(found: Images, order: Order, where: str) -> Images:
    """Return the images ``found`` in this ``order``, their domains numbered as the dataset's.

    Raises DataError, which begins with ``where``, for other images than it was written for.
    """
    parts = []
    for name, part in zip(PARTS, (found.train, found.test), strict=True):
        ranks = order.ranks[name]
        if len(part.labels) != len(ranks):
            raise DataError(f"{where}: {order.path} orders {len(ranks)} {name} images, not {len(part.labels)}")
        places = by_content(part)[ranks]
        arrays = (part.images, part.labels, part.domains)
        parts.append(Part(*(None if array is None else array[places] for array in arrays)))
    train, test = parts
    named, same_shape = found.domain_names is not None, train.images.shape[1:] == test.images.shape[1:]
    made = same_shape and digest_arrays(
        images=np.concatenate([train.images, test.images]),
        labels=np.concatenate([train.labels, test.labels]).astype(np.int64),
        domains=np.concatenate([train.domains, test.domains]).astype(np.int64) if named else None,
    )
    if made != order.digest:
        remedy = "leave `order` out to take these as they are"
        raise DataError(f"{where}: {order.path} was written for other images than those of the source; {remedy}")
    return Images(train, test, found.domain_names)


def by_content(part: Part) -> np.ndarray:
    """Return the places (n,) of a part's images, sorted by SHA-256 of pixels (C, H, W), label and domain."""
    labels = np.asarray(part.labels, dtype="<i8")
    domains = np.zeros_like(labels) if part.domains is None else np.asarray(part.domains, dtype="<i8")
    about = np.stack([labels, domains], axis=1)
    keys = [
        hashlib.sha256(image.tobytes() + what.tobytes()).digest()
        for image, what in zip(part.images, about, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
