"""Where datasets come from. Every source turns a dataset spec into training and test arrays; the writing is shared."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.data import dataset as datasets
from flatfed.errors import DataError, unknown

Part = tuple[np.ndarray, np.ndarray]
Parts = tuple[Part, Part, tuple[np.ndarray, np.ndarray, list[str]] | None]

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}


def fetch(spec: dict[str, Any], out: str | os.PathLike[str]) -> None:
    """Make the dataset folder ``out`` from the dataset spec: name, classes, shape, source and its options.

    Raises DataError naming the dataset, the file and what was expected.
    """
    source = spec["source"]
    name = source["source"]
    if name not in SOURCES:
        raise DataError(unknown("source", name, SOURCES, f"dataset {spec['name']!r}: source"))
    train, test, domains = SOURCES[name](spec, source)
    datasets.save(out, spec, train, test, domains)


def digits(spec: dict[str, Any], source: dict[str, Any]) -> Parts:
    """scikit-learn's 1,797 embedded 8 x 8 digits, grey levels 0..16 scaled to 0..255 and rounded.

    ``test`` images are set aside, class by class in proportion, by a fixed seed. ``expand: rotate90`` makes ten more
    classes, 10 to 19: the same digits turned by 90 degrees, dealt to the same part as their originals.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = found.target.astype(np.int64)
    order = np.random.Generator(np.random.Philox(0)).permutation(len(labels))
    ranks = np.empty(len(labels))
    for c in range(10):
        own = order[labels[order] == c]
        ranks[own] = (np.arange(len(own)) + 0.5) / len(own)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(ranks, kind="stable")[: int(source["test"])]] = True
    expand = source.get("expand")
    if expand == "rotate90":
        images = np.concatenate([images, np.rot90(images, axes=(2, 3))])
        labels, test = np.concatenate([labels, labels + 10]), np.concatenate([test, test])
    elif expand is not None:
        raise DataError(unknown("expansion", expand, ["rotate90"], f"dataset {spec['name']!r}: source.expand"))
    return (images[~test], labels[~test]), (images[test], labels[test]), None


def torchvision(spec: dict[str, Any], source: dict[str, Any]) -> Parts:
    """A dataset that torchvision downloads and checks by its MD5 sum: CIFAR10, CIFAR100, FashionMNIST."""
    import tempfile

    from torchvision import datasets as published

    name = source["dataset"]
    if name not in DOWNLOADS:
        raise DataError(unknown("dataset", name, DOWNLOADS, f"dataset {spec['name']!r}: source.dataset"))
    parts = []
    with tempfile.TemporaryDirectory(prefix="flatfed-") as folder:
        for train in (True, False):
            try:
                found = getattr(published, name)(folder, train=train, download=True)
            except (OSError, RuntimeError) as error:
                raise DataError(
                    f"dataset {spec['name']!r}: torchvision could not download {name} ({error}). Without a network, "
                    f"point it at a file: --config 'data={{{spec['name']}: {{source: npz, path: FILE.npz}}}}' with "
                    f"train_images (n, h, w, c), train_labels, test_images, test_labels"
                ) from error
            images = np.asarray(found.data)
            parts.append((_channels_first(images), np.asarray(found.targets, dtype=np.int64)))
    return parts[0], parts[1], None


DOWNLOADS = ("CIFAR10", "CIFAR100", "FashionMNIST")
# What NumPy and zipfile raise for damaged, encrypted or foreign archives.
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


def npz(spec: dict[str, Any], source: dict[str, Any]) -> Parts:
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
            domains = _domains(where, file, [len(labels) for _, labels in parts])
    except UNREADABLE as error:
        raise DataError(f"{where}: cannot be read as .npz without pickles ({error})") from error
    return parts[0], parts[1], domains


def _part(where: str, part: str, images: np.ndarray, labels: np.ndarray) -> Part:
    """Return one part as (n, C, H, W) uint8 and (n,) int64; DataError naming the array that is not."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(
            f"{where}: {part}_images is {images.dtype} of shape {images.shape}; expected uint8, (n, h, w[, c])"
        )
    if images.ndim == 4 and images.shape[3] not in (1, 3):
        raise DataError(
            f"{where}: {part}_images has shape {images.shape}; expected 1 or 3 channels, last: (n, h, w, c)"
        )
    if not len(images):
        raise DataError(f"{where}: {part}_images holds no image")
    if labels.shape not in ((len(images),), (len(images), 1)) or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{where}: {part}_labels is {labels.dtype} of shape {labels.shape}; expected {len(images)} whole numbers"
        )
    return _channels_first(images), labels.reshape(-1).astype(np.int64)


def _domains(where: str, file: Any, counts: list[int]) -> tuple[np.ndarray, np.ndarray, list[str]] | None:
    """Return the domain numbers of both parts, ``counts`` images long, and the names; None where the file has none."""
    given = [name for name in ("train_domains", "test_domains") if name in file.files]
    if not given:
        return None
    if len(given) == 1:
        raise DataError(f"{where}: has {given[0]} alone; expected both train_domains and test_domains, or neither")
    index = [file[name] for name in given]
    for name, numbers, count in zip(given, index, counts, strict=True):
        if numbers.shape != (count,) or not np.issubdtype(numbers.dtype, np.integer) or numbers.min() < 0:
            raise DataError(
                f"{where}: {name} is {numbers.dtype} of shape {numbers.shape}; expected {count} whole numbers from 0"
            )
    count = 1 + int(max(numbers.max() for numbers in index))
    names = [str(name) for name in file["domains"]] if "domains" in file.files else [str(n) for n in range(count)]
    if len(names) < count:
        raise DataError(
            f"{where}: domains names {len(names)} domains, but train_domains and test_domains go to {count - 1}"
        )
    return index[0], index[1], names


def _channels_first(images: np.ndarray) -> np.ndarray:
    """Return a view of (n, h, w) or (n, h, w, c) as (n, c, h, w)."""
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


def imagefolder(spec: dict[str, Any], source: dict[str, Any]) -> Parts:
    """Folders of images: ``path``/train/<class>/*, ``path``/test/<class>/*, resized to ``size`` x ``size`` pixels.

    With ``domains: true`` the layout is ``path``/<domain>/<class>/*: every domain in turn, class by class, a fixed
    seeded fifth of each as test images. Files are taken in the order of their names; hidden ones are skipped.
    """
    root, size = Path(source["path"]), int(source["size"])
    where = f"dataset {spec['name']!r}: {root}"
    if not source.get("domains", False):
        expected = "train/<class>/<image> and test/<class>/<image>"
        names = _folders(root / "train", where, expected)
        if _folders(root / "test", where, expected) != names:
            raise DataError(f"{where}: train and test do not hold the same class folders")
        parts = [_read_classes(root / part, names, spec, size, where) for part in ("train", "test")]
        return parts[0], parts[1], None
    expected = "<domain>/<class>/<image>"
    domains = _folders(root, where, expected)
    names = _folders(root / domains[0], where, expected)
    kept: dict[bool, list] = {True: [], False: []}
    for number, domain in enumerate(domains):
        if _folders(root / domain, where, expected) != names:
            raise DataError(f"{where}: domain {domain!r} does not hold the class folders of {domains[0]!r}")
        images, labels = _read_classes(root / domain, names, spec, size, where)
        test = np.random.Generator(np.random.Philox(number)).permutation(len(labels)) < len(labels) // 5
        for flag in (True, False):
            kept[flag].append((images[test == flag], labels[test == flag], np.full(int((test == flag).sum()), number)))
    train, test_part = ([np.concatenate(values) for values in zip(*kept[flag], strict=True)] for flag in (False, True))
    return (train[0], train[1]), (test_part[0], test_part[1]), (train[2], test_part[2], domains)


def _folders(root: Path, where: str, expected: str) -> list[str]:
    """Return the names of the visible folders in ``root``, sorted; DataError when there are none."""
    if not root.is_dir():
        raise DataError(f"{where}: no folder {root}; expected the layout {expected}")
    found = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not found:
        raise DataError(f"{where}: folder {root} holds no folders; expected the layout {expected}")
    return found


def _read_classes(root: Path, names: list[str], spec: dict[str, Any], size: int, where: str) -> Part:
    """Return all images (n, C, size, size) of the class folders and their labels."""
    from PIL import Image, UnidentifiedImageError

    if len(names) != spec["classes"]:
        raise DataError(f"{where}: {len(names)} class folders in {root}, but `classes: {spec['classes']}`")
    mode = "L" if spec["shape"][0] == 1 else "RGB"
    images, labels = [], []
    for label, name in enumerate(names):
        visible = (p for p in (root / name).iterdir() if not p.name.startswith("."))
        files = sorted(p for p in visible if p.suffix.lower() in IMAGE_SUFFIXES)
        if not files:
            raise DataError(f"{where}: class folder {root / name} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))})")
        for path in files:
            try:
                with Image.open(path) as picture:
                    pixels = np.asarray(picture.convert(mode).resize((size, size), Image.Resampling.BILINEAR))
            except (OSError, UnidentifiedImageError) as error:
                raise DataError(f"{where}: {path} is not a readable image ({error})") from error
            images.append(pixels[None] if mode == "L" else pixels.transpose(2, 0, 1))
            labels.append(label)
    return np.stack(images), np.array(labels, dtype=np.int64)


SOURCES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Parts]] = {
    "sklearn": digits,
    "torchvision": torchvision,
    "npz": npz,
    "imagefolder": imagefolder,
}
