"""Numbers of images and classes on disk, from folder listings and file headers.

The configuration imports this module: it must not import NumPy.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

from flatfed.config.datasets import Source
from flatfed.errors import DataError, missing_message
from flatfed.files import UNREADABLE

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}
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


def subfolders(root: Path) -> list[str]:
    """Return the sorted names of visible folders in ``root``."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


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


def class_images(folder: Path, where: str) -> list[Path]:
    """Return the sorted visible image files in ``folder``; DataError without any."""
    with os.scandir(folder) as entries:
        visible = (entry.name for entry in entries if not entry.name.startswith("."))
        names = sorted(name for name in visible if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES)
    if not names:
        raise DataError(f"{where}: class folder {folder} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return [folder / name for name in names]


def folder_images(source: Source, domains: list[str] | None, where: str) -> dict[str, list[list[Path]]]:
    """Return part or domain -> image files of each class.

    :raises DataError: another layout, a class that only some parts have, or an empty class.
    """
    root, (first, *others) = Path(source.path), part_folders(source, domains, where)
    classes = {part: folders(root / part, where, layout(source)) for part in (first, *others)}
    for part in others:
        if different := {*classes[part]} ^ {*classes[first]}:
            odd = min(different)
            having, lacking = (part, first) if odd in classes[part] else (first, part)
            raise DataError(f"{where}: {root}: class folder {odd!r} is in {having!r}, not in {lacking!r}")
    return {part: [class_images(root / part / name, where) for name in names] for part, names in classes.items()}


def imagefolder(source: Source, domains: list[str] | None, where: str) -> Counts:
    """Return the counts of an image folder, in colour."""
    images = folder_images(source, domains, where)
    counts = {part: sum(map(len, by_class)) for part, by_class in images.items()}
    total, classes = sum(counts.values()), len(next(iter(images.values())))
    test = sum(map(test_count, counts.values())) if source.domains else counts["test"]
    return Counts(classes, [3, source.size, source.size], total - test, test)


def npz(source: Source, domains: list[str] | None, where: str) -> Counts:
    """Return the counts of an .npz file in MedMNIST's layout."""
    import numpy as np

    path, lengths, shapes, largest = source.path, {}, [], 0
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("train", "test"):
                with archive.open(f"{part}_images.npy") as file:
                    np.lib.format.read_magic(file)
                    shape, _, _ = np.lib.format.read_array_header_1_0(file)
                with archive.open(f"{part}_labels.npy") as file:
                    labels = np.lib.format.read_array(file, allow_pickle=False)
                if len(shape) not in (3, 4) or not labels.size or not np.issubdtype(labels.dtype, np.integer):
                    raise ValueError(f"{part}_images has shape {shape}, {part}_labels {labels.shape} of {labels.dtype}")
                lengths[part], largest = shape[0], max(largest, int(labels.max()))
                shapes.append([shape[3] if len(shape) == 4 else 1, *shape[1:3]])
    except UNREADABLE as error:
        expected = "expected train_images (n, h, w[, c]), train_labels, test_images and test_labels"
        raise DataError(f"{where}: {path} cannot be read as .npz ({error}); {expected}") from None
    return Counts(largest + 1, shapes[0], **lengths)


def listing(source: Source) -> str | None:
    """Return a digest of the names, sizes and times of an image folder's images; None for other sources."""
    if source.source != "imagefolder":
        return None
    lines = [f"{name} {size} {time}" for name, (size, time) in image_stamps(source).items()]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def image_stamps(source: Source) -> dict[str, list[int]]:
    """Return {path in the folder: [size, time]} of an image folder's images."""
    stamps, root = {}, source.path
    for folder, names, files in os.walk(root, followlinks=True):
        names.sort()
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
                status = os.stat(os.path.join(folder, name))
                stamps[f"{os.path.relpath(folder, root)}/{name}"] = [status.st_size, status.st_mtime_ns]
    return stamps


#: Kind of source -> its counting function.
COUNTS = {"npz": npz, "imagefolder": imagefolder}
