"""How many images and classes data on disk have, from a listing of folders or a file's header: no image is opened.

Folders are loaded by the same functions. Importing this imports no NumPy: the configuration is read with it.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatfed.errors import DataError, absent
from flatfed.files import UNREADABLE

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}
PLAIN, BY_DOMAIN = "train/<class>/<image> and test/<class>/<image>", "<domain>/<class>/<image>"

#: One in so many images of a domain is a test image.
ONE_IN = 5


def held_out(images: int) -> int:
    """Return how many of a domain's ``images`` are test images."""
    return images // ONE_IN


def subfolders(root: Path) -> list[str]:
    """Return the names of the visible folders in the folder ``root``, sorted."""
    with os.scandir(root) as found:
        return sorted(entry.name for entry in found if entry.is_dir() and not entry.name.startswith("."))


def folders(root: Path, where: str, expected: str) -> list[str]:
    """Return the names of the visible folders in ``root``, sorted; DataError when there are none."""
    if not root.is_dir():
        raise DataError(f"{where}: no folder {root}; expected the layout {expected}")
    names = subfolders(root)
    if not names:
        raise DataError(f"{where}: folder {root} holds no folders; expected the layout {expected}")
    return names


def layout(source: dict[str, Any]) -> str:
    """Return the layout of the folders of ``source``, and where its images can be had, if it says so."""
    return (BY_DOMAIN if source.get("domains") else PLAIN) + (f". {source['obtain']}" if "obtain" in source else "")


def part_folders(source: dict[str, Any], domains: list[str] | None, where: str) -> list[str]:
    """Return the folders of ``source`` that hold class folders: train and test, or those of the domains, in order.

    ``domains``: the names of the dataset's domains, which are its folders where ``source`` lists no others.

    :raises DataError: there are more or fewer, or one of them is not in the folder of the source, once that is there.
    """
    by_domain, root = source.get("domains"), Path(source["path"])
    if not by_domain:
        return ["train", "test"]
    listed = isinstance(by_domain, list)
    parts = by_domain if listed else domains or folders(root, where, layout(source))
    if domains and len(parts) != len(domains):
        wanted = f"one for each of the {len(domains)} domains is wanted, in this order: {', '.join(domains)}"
        raise DataError(f"{where}.domains: {len(parts)} folders are listed; {wanted}")
    present = subfolders(root) if root.is_dir() else parts
    for folder in parts:
        if folder not in present:
            place = f"{where}.{'domains' if listed else 'path'}: {str(root)!r}"
            lacking = absent("domain folder", folder, present, place)
            raise DataError(f"{lacking}; expected the layout {layout(source)}")
    return parts


def class_folders(root: Path, parts: list[str], where: str, expected: str) -> list[str]:
    """Return the names of the class folders, which are the same in all ``parts`` of ``root``, sorted.

    :raises DataError: there are none, or naming the first class that one part has and another lacks.
    """
    classes = folders(root / parts[0], where, expected)
    for part in parts[1:]:
        found = folders(root / part, where, expected)
        if found != classes:
            odd = min({*found} ^ {*classes})
            having, lacking = (part, parts[0]) if odd in found else (parts[0], part)
            raise DataError(f"{where}: {root}: class folder {odd!r} is in {having!r}, not in {lacking!r}")
    return classes


def class_images(folder: Path, where: str) -> list[Path]:
    """Return the visible image files of a class, in the order of their names; DataError when there are none."""
    with os.scandir(folder) as found:
        visible = (entry.name for entry in found if not entry.name.startswith("."))
        names = sorted(name for name in visible if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES)
    if not names:
        raise DataError(f"{where}: class folder {folder} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return [folder / name for name in names]


def folder_images(source: dict[str, Any], domains: list[str] | None, where: str) -> dict[str, list[list[Path]]]:
    """Return the images of a folder: part, or domain -> those of each class, in the order of their names.

    :raises DataError: the layout is not there, the parts have other classes, or a class has no image.
    """
    root, parts = Path(source["path"]), part_folders(source, domains, where)
    classes = class_folders(root, parts, where, layout(source))
    return {part: [class_images(root / part / name, where) for name in classes] for part in parts}


def imagefolder(source: dict[str, Any], domains: list[str] | None, where: str) -> dict[str, Any]:
    """Return ``classes``, ``shape`` (of colour images), ``train`` and ``test``; DataError as :func:`folder_images`."""
    found = folder_images(source, domains, where)
    counts = {part: sum(map(len, of_part)) for part, of_part in found.items()}
    total, classes = sum(counts.values()), len(next(iter(found.values())))
    test = sum(map(held_out, counts.values())) if source.get("domains") else counts["test"]
    return {"classes": classes, "shape": [3, source["size"], source["size"]], "train": total - test, "test": test}


def npz(source: dict[str, Any], domains: list[str] | None, where: str) -> dict[str, Any]:
    """Return ``classes``, ``shape``, ``train`` and ``test`` of an .npz file in MedMNIST's layout, by its labels.

    :raises DataError: the file has another layout, or cannot be read.
    """
    import numpy as np

    path, lengths, shapes, largest = source["path"], {}, [], 0
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
        wanted = "train_images (n, h, w[, c]), train_labels, test_images and test_labels are wanted"
        raise DataError(f"{where}: {path} cannot be read as .npz ({error}); {wanted}") from None
    return {"classes": largest + 1, "shape": shapes[0], "train": lengths["train"], "test": lengths["test"]}


def listing(source: dict[str, Any]) -> str | None:
    """Return a digest of the names, sizes and times of a source's images; None for a source that is no folder of them.

    It changes where an image is replaced, or moved to another class, and the number of images stays the same.
    """
    if source["source"] != "imagefolder":
        return None
    found, root = [], source["path"]
    for place, names, files in os.walk(root, followlinks=True):
        names.sort()
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
                about = os.stat(os.path.join(place, name))
                found.append(f"{os.path.relpath(place, root)}/{name} {about.st_size} {about.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()


#: Kind of source on disk -> how it is counted.
COUNTS: dict[str, Callable[[dict[str, Any], list[str] | None, str], dict[str, Any]]] = {
    "npz": npz,
    "imagefolder": imagefolder,
}
