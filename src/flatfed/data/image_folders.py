"""Folders of images, read while they are written: DomainNet's 586,575 images are 88 GB as arrays."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flatfed.data.counting import folder_images, held_out
from flatfed.data.dataset import Images, Part
from flatfed.errors import DataError

if TYPE_CHECKING:
    from PIL import Image


class Pictures:
    """Image files as if they were an array ``shape`` (n, C, size, size) uint8; a slice of it reads its files.

    With ``shorter`` an image is scaled until its shorter side has as many pixels, and its centre is cut out; without,
    the whole of it is squeezed into the square.
    """

    def __init__(self, paths: list[Path], channels: int, size: int, where: str, shorter: int | None = None):
        self.paths, self.size, self.where, self.shorter = paths, size, where, shorter
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
                resized = self._square(picture.convert(mode))
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"{self.where}: {path} is not a readable image ({error})") from error
        pixels = np.asarray(resized)
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)

    def _square(self, picture: Image.Image) -> Image.Image:
        """Return ``picture`` with ``size`` x ``size`` pixels, those of torchvision's Resize and CenterCrop."""
        from PIL.Image import Resampling

        bilinear = Resampling.BILINEAR
        if self.shorter is None:
            return picture.resize((self.size, self.size), bilinear)
        sides = [self.shorter * side // min(picture.size) for side in picture.size]
        left, top = (round((side - self.size) / 2) for side in sides)
        return picture.resize(sides, bilinear).crop((left, top, left + self.size, top + self.size))


def imagefolder(spec: dict[str, Any], source: dict[str, Any]) -> Images:
    """Folders of images: ``path``/train/<class>/*, ``path``/test/<class>/*, made ``size`` x ``size`` pixels.

    ``resize``, where it is given, is the shorter side to which an image is scaled before its centre is cut out.

    With ``domains`` the layout is ``path``/<domain>/<class>/*: every domain in turn, class by class, a fixed seeded
    fifth of each as test images. ``domains: true`` takes the folders named as the ``domains`` of ``spec`` (where it has
    none, all folders); a list names their folders in that order. Files are taken in the order of their names; hidden
    ones are skipped. Raises DataError for missing folders and classes; ``obtain`` in the message says where the images
    can be had.
    """
    where, by_domain = f"dataset {spec['name']!r}: source", source.get("domains")
    images = folder_images(source, spec.get("domains"), where)
    names = list(spec.get("domains") or images) if by_domain else None
    part, found = next(iter(images.items()))
    if len(found) != spec["classes"]:
        there = f"{len(found)} class folders in {Path(source['path']) / part}"
        raise DataError(f"{where}: {there}, but `classes: {spec['classes']}`")
    paths = [path for found in images.values() for of_class in found for path in of_class]
    labels, numbers, test = [], [], []
    for number, (part, found) in enumerate(images.items()):
        sizes = list(map(len, found))
        count = sum(sizes)
        labels.append(np.repeat(np.arange(len(found), dtype=np.int64), sizes))
        numbers.append(np.full(count, number, dtype=np.int64))
        drawn = np.random.Generator(np.random.Philox(number)).permutation(count) < held_out(count)
        test.append(drawn if by_domain else np.full(count, part == "test"))

    def chosen(mask: np.ndarray) -> Part:
        pictures = Pictures(
            [paths[i] for i in np.flatnonzero(mask)], spec["shape"][0], int(source["size"]), where, source.get("resize")
        )
        return Part(pictures, np.concatenate(labels)[mask], np.concatenate(numbers)[mask])

    is_test = np.concatenate(test)
    return Images(chosen(~is_test), chosen(is_test), names)
