"""Where datasets come from: every kind of source is a function from a dataset spec to training and test arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.data import keys, order
from flatfed.data.dataset import Images, Part
from flatfed.data.digits import digits
from flatfed.data.image_folders import imagefolder
from flatfed.errors import DataError, unknown
from flatfed.files import UNREADABLE, check_place


def fetch(spec: dict[str, Any], out: str | os.PathLike[str]) -> None:
    """Make the dataset folder ``out`` from the dataset spec: name, classes, shape, source and its options, and the
    names of its ``domains`` where it has any; the numbers in domains.npy follow their order.

    ``train`` and ``test``, where they are there, are how many images there must be.

    Raises DataError naming the dataset, the file and what was expected.
    """
    keys.check_dataset(spec)
    check_place(out, folder=True)
    source = spec["source"]
    where = f"dataset {spec['name']!r}: source.order"
    wanted = order.read(source["order"], where) if "order" in source else None
    found = SOURCES[source["source"]](spec, source)
    if spec.get("domains"):
        found = _with_declared_domains(spec, found)
    datasets.save(out, spec, found if wanted is None else order.put(found, wanted, where))


def _with_declared_domains(spec: dict[str, Any], found: Images) -> Images:
    """Return the images ``found``, their domains numbered as ``domains`` of ``spec``; DataError where they differ."""
    declared, names, where = spec["domains"], found.domain_names, f"dataset {spec['name']!r}"
    if names is None:
        raise DataError(f"{where}: its source has no domains; expected {', '.join(declared)}")
    for name in names:
        if name not in declared:
            raise DataError(unknown("domain", name, declared, f"{where}: its source"))
    if missing := [name for name in declared if name not in names]:
        raise DataError(f"{where}: its source has no domain {missing[0]!r}; it has: {', '.join(names)}")
    place = np.array([declared.index(name) for name in names])
    train, test = (replace(part, domains=place[part.domains]) for part in (found.train, found.test))
    return Images(train, test, list(declared))


def torchvision(spec: dict[str, Any], source: dict[str, Any]) -> Images:
    """A dataset that torchvision downloads and checks by its MD5 sum: CIFAR10, CIFAR100, FashionMNIST, EMNIST.

    EMNIST is the by-class split (62 classes), its characters turned upright: the files hold them transposed. ``draw``
    takes so many images in all, training and test images in proportion, drawn at random by a fixed seed.
    """
    import tempfile

    from torchvision import datasets as published

    name = source["dataset"]
    if name not in DOWNLOADS:
        raise DataError(unknown("dataset", name, DOWNLOADS, f"dataset {spec['name']!r}: source.dataset"))
    parts = []
    with tempfile.TemporaryDirectory(prefix="flatfed-") as folder:
        for train in (True, False):
            try:
                found = getattr(published, name)(folder, train=train, download=True, **DOWNLOADS[name])
            except (OSError, RuntimeError) as error:
                ordered = f", order: {source['order']}" if "order" in source else ""
                raise DataError(
                    f"dataset {spec['name']!r}: torchvision could not download {name} ({error}). Without a network, "
                    f"point it at a file: --config 'data={{{spec['name']}: {{source: npz, path: FILE.npz{ordered}}}}}' "
                    f"with train_images (n, h, w, c), train_labels, test_images, test_labels"
                ) from error
            images = np.asarray(found.data)
            images = images.transpose(0, 2, 1) if name == "EMNIST" else images
            parts.append(Part(_channels_first(images), np.asarray(found.targets, dtype=np.int64)))
    if "draw" in source:
        parts = _draw(parts, int(source["draw"]), f"dataset {spec['name']!r}: source.draw")
    return Images(*parts)


def _draw(parts: list[Part], count: int, where: str) -> list[Part]:
    """Return ``count`` images of both parts together, in proportion; their order within a part is kept."""
    sizes = [len(part.labels) for part in parts]
    if not 2 <= count <= sum(sizes):
        raise DataError(f"{where}: {count} must lie between 2 and the {sum(sizes)} images there are")
    first = round(count * sizes[0] / sum(sizes))
    rng, drawn = np.random.Generator(np.random.Philox(0)), []
    for part, size, kept in zip(parts, sizes, (first, count - first), strict=True):
        chosen = np.sort(rng.permutation(size)[:kept])
        drawn.append(Part(part.images[chosen], part.labels[chosen]))
    return drawn


#: Name of a class of torchvision.datasets -> what else it is called with.
DOWNLOADS: dict[str, dict[str, str]] = {
    "CIFAR10": {},
    "CIFAR100": {},
    "FashionMNIST": {},
    "EMNIST": {"split": "byclass"},
}
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


def npz(spec: dict[str, Any], source: dict[str, Any]) -> Images:
    """One .npz file in MedMNIST's layout: train_images (n, h, w[, c]) uint8, train_labels, test_images, test_labels;
    optionally train_domains, test_domains and the domains' names."""
    path = Path(source["path"])
    where = f"dataset {spec['name']!r}: {path}"
    if not path.is_file():
        raise DataError(f"{where}: no such file; `path` of the npz source must name a file with {', '.join(ARRAYS)}")
    try:
        with open(path, "rb") as opened:
            if opened.read(2) != b"PK":
                raise DataError(f"{where}: is not an .npz file (numpy.savez writes one)")
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in ARRAYS if name not in file.files]
            if missing:
                raise DataError(f"{where}: has no array {', '.join(missing)}; it holds: {', '.join(file.files)}")
            parts = [_part(where, part, file[f"{part}_images"], file[f"{part}_labels"]) for part in ("train", "test")]
            return _with_domains(where, file, parts)
    except UNREADABLE as error:
        raise DataError(f"{where}: cannot be read as .npz without pickles ({error})") from error


def _part(where: str, part: str, images: np.ndarray, labels: np.ndarray) -> Part:
    """Return one part as (n, C, H, W) uint8 and (n,) int64; DataError naming the array that is not."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[3:] not in ((), (1,), (3,)):
        wanted = "uint8, (n, h, w[, c]) with 1 or 3 channels c"
        raise DataError(f"{where}: {part}_images is {images.dtype} of shape {images.shape}; expected {wanted}")
    if not len(images):
        raise DataError(f"{where}: {part}_images holds no image")
    if labels.shape not in ((len(images),), (len(images), 1)) or not np.issubdtype(labels.dtype, np.integer):
        wanted = f"{len(images)} whole numbers"
        raise DataError(f"{where}: {part}_labels is {labels.dtype} of shape {labels.shape}; expected {wanted}")
    return Part(_channels_first(images), labels.reshape(-1).astype(np.int64))


def _with_domains(where: str, file: Any, parts: list[Part]) -> Images:
    """Return both ``parts`` with the domains that the .npz ``file`` has of them, if it has any."""
    domains = {name: file[name] for name in ("train_domains", "test_domains") if name in file.files}
    if not domains:
        return Images(*parts)
    if len(domains) == 1:
        raise DataError(f"{where}: has {min(domains)} alone; expected both train_domains and test_domains, or neither")
    for part, (name, numbers) in zip(parts, domains.items(), strict=True):
        if numbers.shape != part.labels.shape or not np.issubdtype(numbers.dtype, np.integer) or numbers.min() < 0:
            wanted = f"{len(part.labels)} whole numbers from 0"
            raise DataError(f"{where}: {name} is {numbers.dtype} of shape {numbers.shape}; expected {wanted}")
    count = 1 + int(max(numbers.max() for numbers in domains.values()))
    names = [str(name) for name in file["domains"]] if "domains" in file.files else [str(n) for n in range(count)]
    if len(names) < count:
        raise DataError(f"{where}: `domains` names {len(names)}, but train_domains and test_domains go to {count - 1}")
    train, test = (replace(part, domains=numbers) for part, numbers in zip(parts, domains.values(), strict=True))
    return Images(train, test, names)


def _channels_first(images: np.ndarray) -> np.ndarray:
    """Return a view of (n, h, w) or (n, h, w, c) as (n, c, h, w)."""
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


#: Kind of source -> the function from a dataset spec, and its source, to the images.
SOURCES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Images]] = {
    "sklearn": digits,
    "torchvision": torchvision,
    "npz": npz,
    "imagefolder": imagefolder,
}
