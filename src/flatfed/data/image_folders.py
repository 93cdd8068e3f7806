"""Folders of images, read in blocks: DomainNet's 586,575 images are 88 GB as arrays."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flatfed.data.counting import folder_images, test_count
from flatfed.data.dataset import Images, Part
from flatfed.data.keys import DatasetSpecification
from flatfed.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

#: What the pixels of a dataset lack of its files -> the test of a file. The log of a fetch counts the files.
REMARKS = {
    "16 bits, scaled to 8": lambda picture: picture.mode.startswith("I;16"),
    "transparency, dropped": lambda picture: picture.has_transparency_data,
    "several frames, of which the first is used": lambda picture: getattr(picture, "is_animated", False),
    "an EXIF rotation, not applied": lambda picture: picture.getexif().get(0x0112, 1) != 1,  # orientation
}


#: Tags of TIFF files.
BITS_PER_SAMPLE, PHOTOMETRIC, SAMPLE_FORMAT = 0x0102, 0x0106, 0x0153
#: Pillow's formats of the suffixes in counting.IMAGE_SUFFIXES.
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF", "PPM")


class Pictures:
    """Image files with the interface of an array (n, C, size, size) uint8; a slice reads its files.

    ``shorter``: scale the shorter side to this length, then crop the centre. Without it, scale to the square.
    ``remarks``: numbers of the files read so far by :data:`REMARKS`. ``damaged``: unreadable files so far, each with
    its problem; their images are black.
    """

    def __init__(self, paths: list[str | Path], channels: int, size: int, shorter: int | None = None):
        self.paths, self.size, self.shorter = paths, size, shorter
        self.shape = (len(paths), channels, size, size)
        self.remarks: Counter[str] = Counter()
        self.damaged: list[str] = []

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, part: slice) -> np.ndarray:
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            images, remarks, problems = zip(*pool.map(self._read, self.paths[part]), strict=True)
        self.remarks.update(text for texts in remarks for text in texts)
        self.damaged += filter(None, problems)
        return np.stack(images)

    def _read(self, path: str | Path) -> tuple[np.ndarray, list[str], str]:
        """Return the image (C, size, size), the remarks on its file, and its problem or ""."""
        from PIL import Image

        mode = "L" if self.shape[1] == 1 else "RGB"
        try:
            with Image.open(path, formats=FORMATS) as picture:
                resized = self._square(eight_bits(picture, mode))
                remarks: list[str] = []
                with contextlib.suppress(Exception):  # damaged metadata
                    remarks.extend(text for text, applies in REMARKS.items() if applies(picture))
        except Exception as error:  # the kind depends on the damage
            return np.zeros(self.shape[1:], np.uint8), [], f"{path} ({error})"
        pixels = np.asarray(resized)
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1), remarks, ""

    def _square(self, picture: Image) -> Image:
        from torchvision.transforms.functional import center_crop, resize

        square = [self.size, self.size]
        return resize(picture, square) if self.shorter is None else center_crop(resize(picture, self.shorter), square)


def eight_bits(picture: Image, mode: str) -> Image:
    """Return ``picture`` in ``mode`` "L" or "RGB": 16-bit grey is scaled; ValueError for other depths and modes."""
    from PIL.Image import fromarray

    # Pillow has no mode of 12 bits, ignores signs, and reads white as zero right with 8 bits alone.
    tags, grey = getattr(picture, "tag_v2", {}), picture.mode.startswith("I;16")
    bits = np.max(tags.get(BITS_PER_SAMPLE, 16)) if grey else 32 if picture.mode in ("I", "F") else 8
    if bits not in (8, 16):
        raise ValueError(f"mode {picture.mode}, {bits} bits; expected 8 or 16 bits per channel")
    if np.max(tags.get(SAMPLE_FORMAT, 1)) != 1:
        raise ValueError("signed or real numbers; expected unsigned ones")
    if grey and tags.get(PHOTOMETRIC) == 0:
        raise ValueError("16 bits with white as 0; expected black as 0")
    if grey:
        picture = fromarray(np.rint(np.asarray(picture) / 257).astype(np.uint8))
    return picture.convert(mode)


def imagefolder(spec: DatasetSpecification) -> Images:
    """Return the images of ``path``/train/<class>/* and ``path``/test/<class>/* with ``size`` x ``size`` pixels.

    ``resize``: see ``shorter`` of :class:`Pictures`. With ``domains`` the layout is ``path``/<domain>/<class>/*, and a
    fixed random fifth of every domain is the test part. ``domains: true`` takes the folders named in ``spec``, a list
    others.
    """
    source, where = spec.source, f"dataset {spec.name!r}: source"
    images = folder_images(source, spec.domains, where)
    names = list(spec.domains or images) if source.domains else None
    part, classes = next(iter(images.items()))
    if len(classes) != spec.classes:
        actual = f"{len(classes)} class folders in {Path(source.path) / part}"
        raise DataError(f"{where}: {actual}, but `classes: {spec.classes}`")
    files = [
        (path, label, number)
        for number, by_class in enumerate(images.values())
        for label, class_paths in enumerate(by_class)
        for path in class_paths
    ]
    labels, numbers = np.array([indices for _, *indices in files], dtype=np.int64).T
    is_test = numbers == 1  # the folder test
    if names:
        counts = enumerate(np.bincount(numbers))
        orders = [(np.random.Generator(np.random.Philox(number)).permutation(count), count) for number, count in counts]
        is_test = np.concatenate([order < test_count(count) for order, count in orders])

    def selected(mask: np.ndarray) -> Part:
        paths = [files[i][0] for i in np.flatnonzero(mask)]
        pictures = Pictures(paths, spec.shape[0], source.size, source.resize)
        return Part(pictures, labels[mask], numbers[mask])

    return Images(selected(~is_test), selected(is_test), names)
