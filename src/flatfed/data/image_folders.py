"""Folders of images, read while they are written: DomainNet's 586,575 images are 88 GB as arrays."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.data.counting import BY_DOMAIN, PLAIN, class_images, folders, held_out
from flatfed.errors import DataError, absent


class Pictures:
    """Image files as if they were an array ``shape`` (n, C, size, size) uint8; a slice of it reads its files."""

    def __init__(self, paths: list[Path], channels: int, size: int, where: str):
        self.paths, self.size, self.where = paths, size, where
        self.shape = (len(paths), channels, size, size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, part: slice) -> np.ndarray:
        """Return the images of ``part`` as (n, C, size, size) uint8; DataError naming a file that is no image."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return np.stack(list(pool.map(self._read, self.paths[part])))

    def _read(self, path: Path) -> np.ndarray:
        from PIL import Image, UnidentifiedImageError

        mode = "L" if self.shape[1] == 1 else "RGB"
        try:
            with Image.open(path) as picture:
                resized = picture.convert(mode).resize((self.size, self.size), Image.Resampling.BILINEAR)
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"{self.where}: {path} is not a readable image ({error})") from error
        pixels = np.asarray(resized)
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


Part = tuple[Pictures, np.ndarray]


def imagefolder(
    spec: dict[str, Any], source: dict[str, Any]
) -> tuple[Part, Part, tuple[np.ndarray, np.ndarray, list[str]] | None]:
    """Folders of images: ``path``/train/<class>/*, ``path``/test/<class>/*, resized to ``size`` x ``size`` pixels.

    With ``domains`` the layout is ``path``/<domain>/<class>/*: every domain in turn, class by class, a fixed seeded
    fifth of each as test images. ``domains: true`` takes the folders named as the ``domains`` of ``spec`` (where it has
    none, all folders); a list names their folders in that order. Files are taken in the order of their names; hidden
    ones are skipped. Raises DataError for missing folders and classes, with ``obtain``, where to get the images.
    """
    root = Path(source["path"])
    where = f"dataset {spec['name']!r}: {root}"
    expected = BY_DOMAIN if source.get("domains") else PLAIN
    if "obtain" in source:
        expected += f". {source['obtain']}"
    make = _by_domain if source.get("domains") else _plain
    return make(root, spec, source, where, expected)


def _plain(
    root: Path, spec: dict[str, Any], source: dict[str, Any], where: str, expected: str
) -> tuple[Any, Any, None]:
    """Return the parts of folders train and test."""
    names = folders(root / "train", where, expected)
    if folders(root / "test", where, expected) != names:
        raise DataError(f"{where}: train and test do not hold the same class folders")
    channels, size = spec["shape"][0], int(source["size"])
    parts = []
    for part in ("train", "test"):
        paths, labels = _files(root / part, names, spec["classes"], where)
        parts.append((Pictures(paths, channels, size, where), labels))
    return parts[0], parts[1], None


def _by_domain(root: Path, spec: dict[str, Any], source: dict[str, Any], where: str, expected: str) -> tuple:
    """Return the parts of one folder a domain, and every image's domain."""
    present, declared = folders(root, where, expected), spec.get("domains") or []
    chosen = source["domains"] if isinstance(source["domains"], list) else (declared or present)
    domains = list(declared or chosen)
    if len(chosen) != len(domains):
        raise DataError(f"{where}: source.domains lists {len(chosen)} folders for the {len(domains)} domains")
    for folder in chosen:
        if folder not in present:
            raise DataError(f"{absent('domain folder', folder, present, where)}; expected the layout {expected}")
    names = folders(root / chosen[0], where, expected)
    paths: dict[bool, list[Path]] = {False: [], True: []}
    labels: dict[bool, list[int]] = {False: [], True: []}
    numbers: dict[bool, list[int]] = {False: [], True: []}
    for number, folder in enumerate(chosen):
        _same_classes(root, folder, chosen[0], names, where, expected)
        files, classes = _files(root / folder, names, spec["classes"], where)
        test = np.random.Generator(np.random.Philox(number)).permutation(len(files)) < held_out(len(files))
        for path, label, flag in zip(files, classes.tolist(), test.tolist(), strict=True):
            paths[flag].append(path)
            labels[flag].append(label)
            numbers[flag].append(number)
    channels, size = spec["shape"][0], int(source["size"])
    train, held = ((Pictures(paths[f], channels, size, where), np.array(labels[f], np.int64)) for f in (False, True))
    return train, held, (np.array(numbers[False], np.int64), np.array(numbers[True], np.int64), domains)


def _same_classes(root: Path, folder: str, first: str, names: list[str], where: str, expected: str) -> None:
    """Refuse domain ``folder`` if its classes are not ``names``, those of ``first``; the class is named."""
    found = folders(root / folder, where, expected)
    if found != names:
        odd = sorted(set(found) ^ set(names))[0]
        without, having = (first, folder) if odd in found else (folder, first)
        raise DataError(
            f"{where}: domain {folder!r} does not hold the class folders of {first!r}: "
            f"{odd!r} is in {having!r}, not in {without!r}"
        )


def _files(root: Path, names: list[str], classes: int, where: str) -> tuple[list[Path], np.ndarray]:
    """Return all image files of the class folders ``names`` in ``root``, and their labels."""
    if len(names) != classes:
        raise DataError(f"{where}: {len(names)} class folders in {root}, but `classes: {classes}`")
    paths, labels = [], []
    for label, name in enumerate(names):
        files = class_images(root / name, where)
        paths += files
        labels += [label] * len(files)
    return paths, np.array(labels, dtype=np.int64)
