"""Numbers of images and classes on disk, from folder listings and file headers.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flatfed.config.datasets import ArrayFile, ImageFolder, Source
from flatfed.errors import DataError, missing_message, other_form
from flatfed.files import UNREADABLE

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".pbm", ".pgm", ".ppm"}
#: Arrays of an .npz source, and those that it may have.
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
DOMAIN_ARRAYS = ("train_domains", "test_domains", "domains")
PLAIN, BY_DOMAIN = "train/<class>/<image> and test/<class>/<image>", "<domain>/<class>/<image>"


class Counts(NamedTuple):
    """Numbers of a dataset: ``classes``, ``shape`` (C, H, W) of an image, ``train`` and ``test`` images."""

    classes: int
    shape: list[int]
    train: int
    test: int


def test_count(images: int) -> int:
    """Return the number of test images of a domain: a fifth of its ``images``."""
    return images // 5


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    """Return the visible entries of ``folder``, sorted by name."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def subfolders(root: Path) -> list[str]:
    """Return the sorted names of visible folders in ``root``."""
    return [entry.name for entry in _visible(root) if os.path.isdir(entry)]


def folders(root: Path, where: str, expected: str) -> list[str]:
    """Return :func:`subfolders` of ``root``; DataError without any."""
    if not root.is_dir():
        raise DataError(f"{where}: no folder {root}; expected the layout {expected}")
    names = subfolders(root)
    if not names:
        raise DataError(f"{where}: folder {root} contains no folders; expected the layout {expected}")
    return names


def layout(source: Source) -> str:
    return (BY_DOMAIN if source.domains else PLAIN) + (f". {source.obtain}" if source.obtain else "")


def part_folders(source: Source, domains: list[str] | None, where: str) -> list[str]:
    """Return the names of the folders that contain class folders: train and test, or one for each of ``domains``.

    :raises DataError: ``source`` lists another number of folders, or its folder exists and lacks one.
    """
    root, listed = Path(source.path), isinstance(source.domains, list)
    if not source.domains:
        return ["train", "test"]
    parts = source.domains if listed else domains or folders(root, where, layout(source))
    if domains and len(parts) != len(domains):
        expected = f"expected one for each of the {len(domains)} domains, in this order: {', '.join(domains)}"
        raise DataError(f"{where}.domains: {len(parts)} folders are listed; {expected}")
    present = subfolders(root) if root.is_dir() else parts
    for folder in parts:
        if folder not in present:
            key = f"{where}.{'domains' if listed else 'path'}: {str(root)!r}"
            message = missing_message("domain folder", folder, present, key)
            raise DataError(f"{message}; expected the layout {layout(source)}")
    return parts


def class_images(folder: Path, where: str) -> list[str]:
    """Return the sorted visible image files in ``folder``; DataError without any, or for one that is no plain file."""
    entries = [entry for entry in _visible(folder) if _suffix(entry.name) in IMAGE_SUFFIXES]
    for entry in entries:
        if not os.path.isfile(entry):
            raise DataError(f"{where}: {entry.path} is no file, with the name of an image; move or rename it")
    if not entries:
        raise DataError(f"{where}: class folder {folder} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return [entry.path for entry in entries]


def folder_images(source: Source, domains: list[str] | None, where: str) -> dict[str, list[list[str]]]:
    """Return part or domain -> image files of each class: all files of the folder that are read.

    :raises DataError: another layout, a class that only some parts have, or an empty class.
    """
    root, (first, *others) = Path(source.path), part_folders(source, domains, where)
    classes = {part: folders(root / part, where, layout(source)) for part in (first, *others)}
    for part in others:
        if different := {*classes[part]} ^ {*classes[first]}:
            odd = min(different)
            having, lacking = (part, first) if odd in classes[part] else (first, part)
            message = f"{where}: {root}: class folder {odd!r} is in {having!r}, not in {lacking!r}"
            raise DataError(message + other_form(odd, classes[lacking]))
    return {part: [class_images(root / part / name, where) for name in names] for part, names in classes.items()}


def files_read(source: Source, domains: list[str] | None) -> dict[str, str]:
    """Return all files that a fetch reads by name: the keys of a source, or paths in the folder of its images.

    Empty for a folder in another layout, and for sources that are not on disk.
    """
    if isinstance(source, ImageFolder):
        try:
            images = folder_images(source, domains, "")
        except (DataError, OSError):  # the fetch reports it
            return {}
        paths = (path for by_class in images.values() for paths in by_class for path in paths)
        return {path.removeprefix(f"{Path(source.path)}/"): path for path in paths}
    return {key: path for key, path in source.paths.items() if key == "order" or isinstance(source, ArrayFile)}


def ignored(source: Source, domains: list[str] | None, where: str) -> dict[str, int]:
    """Return {kind and folder: number} of the visible files on disk next to the images that are not read.

    Of an archive, each array counts.

    :raises DataError: as :func:`folder_images`, or the archive cannot be read.
    """
    if isinstance(source, ArrayFile):
        return {f"array {name}": 1 for name in sorted({*_arrays(source.path, where)} - {*ARRAYS, *DOMAIN_ARRAYS})}
    if not isinstance(source, ImageFolder):
        return {}
    counts: Counter[str] = Counter()
    images = folder_images(source, domains, where)
    read = {path for by_class in images.values() for paths in by_class for path in paths}
    for folder, below, names in os.walk(Path(source.path)):  # not through links, which may lead to a whole disk
        below[:] = sorted(name for name in below if not name.startswith("."))
        others = (name for name in names if not name.startswith(".") and os.path.join(folder, name) not in read)
        place = os.path.relpath(folder, source.path)
        counts.update(f"{_suffix(name) or 'no suffix'} in {place}" for name in others)
    return dict(counts)


def imagefolder(source: Source, domains: list[str] | None, where: str) -> Counts:
    """Return the counts of an image folder, in colour."""
    images = folder_images(source, domains, where)
    counts = {part: sum(map(len, by_class)) for part, by_class in images.items()}
    total, classes = sum(counts.values()), len(next(iter(images.values())))
    test = sum(map(test_count, counts.values())) if source.domains else counts["test"]
    return Counts(classes, [3, source.size, source.size], total - test, test)


def not_read(ignored: Mapping[str, int]) -> str:
    """Return the text of :func:`ignored` for a log: the ten largest numbers."""
    largest = sorted(ignored.items(), key=lambda pair: -pair[1])
    texts = [f"{count} {kind}" for kind, count in largest[:10]] + (["..."] if len(largest) > 10 else [])
    return f"not read: {', '.join(texts)}"


def _arrays(path: str, where: str) -> list[str]:
    """Return the names of the arrays in an .npz file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{where}: {path}: cannot be read as .npz, as numpy.savez writes it ({error})") from None


def read_archive(path: str, where: str) -> dict[str, tuple[list[int], Any]]:
    """Return part -> (shape [C, H, W], labels (n,) int64) of an .npz file in MedMNIST's layout; images are not read.

    :raises DataError: other or damaged arrays.
    """
    import numpy as np

    from flatfed.data import labels

    where, held, found = f"{where}: {path}", _arrays(path, where), {}
    if missing := [name for name in ARRAYS if name not in held]:
        raise DataError(f"{where}: has no array {', '.join(missing)}; it holds: {', '.join(held)}")
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("train", "test"):
                with archive.open(f"{part}_images.npy") as file:
                    np.lib.format.read_magic(file)
                    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                with archive.open(f"{part}_labels.npy") as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
                if dtype != np.uint8 or len(shape) not in (3, 4) or shape[3:] not in ((), (1,), (3,)) or not shape[0]:
                    expected = "uint8 (n, h, w[, c]) with 1 or 3 channels c, and at least one image"
                    raise DataError(f"{where}: {part}_images is {dtype} of shape {shape}; expected {expected}")
                labels_of_part = labels.of_images(array, shape[0], f"{where}: {part}_labels")
                found[part] = [*(shape[3:] or (1,)), *shape[1:3]], labels_of_part
    except UNREADABLE as error:
        raise DataError(f"{where}: cannot be read as .npz without pickles ({error})") from None
    return found


def npz(source: Source, domains: list[str] | None, where: str) -> Counts:
    """Return the counts of an .npz file."""
    from flatfed.data import labels

    (shape, train), (_, test) = read_archive(source.path, where).values()
    return Counts(labels.check(train, test, None, f"{where}: {source.path}"), shape, len(train), len(test))


#: Kind of source -> its counting function.
COUNTS = {"npz": npz, "imagefolder": imagefolder}
