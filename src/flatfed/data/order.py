"""The order of a data set's images, so that those of another source can be put into that of published runs.

Which images a client gets, and which a batch holds, are places in that order, and sources differ in it. A file of an
order holds for every place the rank of its image among all of the part, sorted by what they show; not the images.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.data.dataset import Images, Part
from flatfed.errors import DataError
from flatfed.files import digest_arrays, write_whole

PARTS = ("train", "test")
# What NumPy and zipfile raise for damaged, encrypted or foreign archives.
UNREADABLE = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def write(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the order of the images in a dataset's ``folder`` to ``path``, an .npz file.

    It has ``train`` (n,) and ``test`` (m,), uint32, and ``digest``, that of the dataset. Raises DataError where
    ``folder`` holds no dataset, or a damaged one.
    """
    datasets.verify(folder)
    data = datasets.load(folder)
    ranks = {}
    for name, kept in zip(PARTS, (slice(data.train), slice(data.train, None)), strict=True):
        domains = None if data.domains is None else data.domains[kept]
        ranks[name] = np.argsort(_by_content(Part(data.images[kept], data.labels[kept], domains))).astype(np.uint32)
    with write_whole(path) as file:
        np.savez_compressed(file, **ranks, digest=np.array(data.digest))


def put(found: Images, path: str | os.PathLike[str], where: str) -> Images:
    """Return the images ``found`` in the order of the file ``path``, their domains numbered as the dataset's.

    Raises DataError, which begins with ``where``, for a file that holds no order, and for other images than it was
    written for.
    """
    ranks, digest = _read(path, where)
    parts = []
    for name, part in zip(PARTS, (found.train, found.test), strict=True):
        if len(part.labels) != len(ranks[name]):
            raise DataError(
                f"{where}: {path} orders {len(ranks[name])} {name} images, the source has {len(part.labels)}"
            )
        places = _by_content(part)[ranks[name]]
        domains = None if part.domains is None else part.domains[places]
        parts.append(replace(part, images=part.images[places], labels=part.labels[places], domains=domains))
    train, test = parts
    named = found.domain_names is not None
    made = digest_arrays(
        images=np.concatenate([train.images, test.images]),
        labels=np.concatenate([train.labels, test.labels]).astype(np.int64),
        domains=np.concatenate([train.domains, test.domains]).astype(np.int64) if named else None,
    )
    if made != digest:
        raise DataError(
            f"{where}: {path} was written for other images: in its order those of the source have the digest "
            f"{made[:12]}, its own is {digest[:12]}. Leave `order` out to take them as they are"
        )
    return Images(train, test, found.domain_names)


def _by_content(part: Part) -> np.ndarray:
    """Return the places (n,) of a part's images, sorted by SHA-256 of pixels (C, H, W), label and domain."""
    labels = np.asarray(part.labels, dtype="<i8")
    domains = np.zeros_like(labels) if part.domains is None else np.asarray(part.domains, dtype="<i8")
    about = np.stack([labels, domains], axis=1)
    keys = [
        hashlib.sha256(image.tobytes() + what.tobytes()).digest()
        for image, what in zip(part.images, about, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _read(path: str | os.PathLike[str], where: str) -> tuple[dict[str, np.ndarray], str]:
    """Return the ranks of both parts in the file of an order, and the digest of the dataset in it."""
    if not Path(path).is_file():
        raise DataError(f"{where}: {path}: no such file; `python -m flatfed order DATASET --out FILE` writes one")
    try:
        with np.load(path, allow_pickle=False) as file:
            ranks, digest = {name: file[name] for name in PARTS}, str(file["digest"])
    except UNREADABLE as error:
        raise DataError(f"{where}: {path} cannot be read as the order of a dataset ({error})") from error
    for name, each in ranks.items():
        if not np.issubdtype(each.dtype, np.integer) or not np.array_equal(np.sort(each), np.arange(each.size)):
            raise DataError(f"{where}: {path}: {name} is no order: every whole number below {each.size} is wanted once")
    return ranks, digest
