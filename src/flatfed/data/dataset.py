"""A dataset on disk: ``resources/<dataset>/`` with images.npy, labels.npy, domains.npy and dataset.json."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from flatfed.data import manifest as manifests
from flatfed.data.manifest import Manifest
from flatfed.errors import DataError
from flatfed.files import digest_arrays, write_whole

BLOCK = 1 << 26  # bytes of images written at a time
PAUSE = 10.0  # seconds between two lines that say how far the writing is


@dataclass(frozen=True)
class Part:
    """The training or the test images of a source, on their way to a dataset's folder.

    ``images`` (n, C, H, W) uint8, any view, or anything that has this shape and gives arrays for slices; ``labels``
    (n,) whole numbers; ``domains`` (n,) each image's domain, an index into their names, or None.
    """

    images: np.ndarray | Any
    labels: np.ndarray
    domains: np.ndarray | None = None


@dataclass(frozen=True)
class Images:
    """What a source returns: both parts, and the names of their domains, None where they have none."""

    train: Part
    test: Part
    domain_names: Sequence[str] | None = None


@dataclass(frozen=True)
class Dataset:
    """``images`` (N, C, H, W) uint8, memory-mapped, training images first; ``labels`` (N,) int64; ``domains`` (N,)
    int64 or None; ``train`` and ``test`` their numbers; ``digest`` SHA-256 of all arrays."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    domains: np.ndarray | None
    classes: int
    train: int
    test: int
    digest: str
    domain_names: tuple[str, ...]


def load(folder: str | os.PathLike[str]) -> Dataset:
    """Return the dataset in ``folder``, its images memory-mapped (copy on write, so that torch may wrap them).

    Raises DataError for missing or unreadable files and for arrays that do not have the sizes dataset.json names.
    """
    folder = Path(folder)
    if not folder.is_dir():
        wanted = "a dataset's folder, with dataset.json, images.npy and labels.npy, which `flatfed fetch` makes"
        raise DataError(f"{folder}: {'is a file' if folder.exists() else 'is not there'}; wanted: {wanted}")
    again = "delete the folder to make it again"
    try:
        about = manifests.read(folder / manifests.NAME)
        images = np.load(folder / "images.npy", mmap_mode="c", allow_pickle=False)
        labels = np.load(folder / "labels.npy", allow_pickle=False)
        domains = np.load(folder / "domains.npy", allow_pickle=False) if about.domains else None
    except (DataError, OSError, ValueError, EOFError) as error:
        raise DataError(f"{folder}: cannot be read as a dataset ({error}); {again}") from error
    count = about.train + about.test
    for file, array, expected, dtype in (
        ("images.npy", images, (count, *about.shape), np.uint8),
        ("labels.npy", labels, (count,), np.int64),
        ("domains.npy", domains, (count,), np.int64),
    ):
        if array is not None and (array.shape != expected or array.dtype != dtype):
            wanted = f"dataset.json asks for {np.dtype(dtype)} of shape {expected}"
            raise DataError(f"{folder}: {file} is {array.dtype} of shape {array.shape}, but {wanted}; {again}")
    names = tuple(about.domains or ())
    return Dataset(about.name, images, labels, domains, about.classes, about.train, about.test, about.digest, names)


def verify(folder: str | os.PathLike[str]) -> None:
    """Read the whole dataset and compare its digest with dataset.json's; DataError where they differ."""
    found = load(folder)
    if digest_arrays(images=found.images, labels=found.labels, domains=found.domains) != found.digest:
        raise DataError(f"{folder}: the arrays are not those of dataset.json; delete the folder to make it again")


def save(folder: str | os.PathLike[str], spec: dict[str, Any], found: Images) -> None:
    """Write the images ``found`` for the dataset spec ``spec`` to a dataset's folder.

    dataset.json comes last, so that a folder without it is unfinished. Images are written in blocks of 64 MB: there is
    no second copy of them in memory. Raises DataError where the arrays are not what the spec says; the old content of
    ``folder`` is then untouched.
    """
    folder, name, classes = Path(folder), spec["name"], spec["classes"]
    train, test = found.train, found.test
    labels, domains = np.concatenate([train.labels, test.labels]).astype(np.int64), None
    if found.domain_names is not None:
        domains = np.concatenate([train.domains, test.domains]).astype(np.int64)
    for part, images in (("training", train.images), ("test", test.images)):
        if list(images.shape[1:]) != list(spec["shape"]):
            found_shape = f"{part} images have shape {list(images.shape[1:])} (channels, height, width)"
            raise DataError(f"dataset {name!r}: {found_shape}, but `shape` in config/datasets.yaml is {spec['shape']}")
    _check_counts(spec, len(train.labels), len(test.labels))
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        span = f"labels go from {labels.min()} to {labels.max()}"
        raise DataError(f"dataset {name!r}: {span}, but `classes: {classes}` allows 0 to {classes - 1}")
    if len(absent := np.setdiff1d(np.arange(classes), train.labels)):
        first = ", ".join(map(str, absent[:5])) + ", ..." * (len(absent) > 5)
        raise DataError(f"dataset {name!r}: no training image of class {first}, but `classes: {classes}` is declared")
    with write_whole(folder / "images.npy") as out:
        shape = (len(labels), *spec["shape"])
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
        _write_images(out, (train.images, test.images), name)
        (folder / manifests.NAME).unlink(missing_ok=True)
    for file, array in (("labels", labels), ("domains", domains)):
        if array is not None:
            with write_whole(folder / f"{file}.npy") as out:
                np.save(out, array, allow_pickle=False)
    images = np.load(folder / "images.npy", mmap_mode="r")
    about = Manifest(
        name=name,
        classes=classes,
        shape=list(images.shape[1:]),
        train=len(train.labels),
        test=len(test.labels),
        domains=found.domain_names,
        source={key: value for key, value in spec["source"].items() if key not in manifests.PATHS},
        digest=digest_arrays(images=images, labels=labels, domains=domains),
        bytes=int(images.nbytes),
    )
    manifests.write(folder / manifests.NAME, about)


def _check_counts(spec: dict[str, Any], train: int, test: int) -> None:
    """Refuse other numbers of images than ``spec`` declares, if it declares any, and say how to declare these."""
    declared = {part: spec[part] for part in ("train", "test") if part in spec}
    found = {"train": train, "test": test}
    if declared.items() <= found.items():
        return
    name, source = spec["name"], {key: value for key, value in spec["source"].items() if key != "obtain"}
    place = f"{source['path']} holds" if "path" in source else "its source gives"
    wanted = ", ".join(f"`{part}: {count}`" for part, count in declared.items())
    given = json.dumps({name: {**source, "images": found}})
    raise DataError(
        f"dataset {name!r}: {place} {train} training and {test} test images, but {wanted} is declared "
        f"(config/datasets.yaml: {name}, or `images` of its source under `data`). Where these are meant, such as a "
        f"subset, declare them in config/datasets.yaml, or for one machine under `data` in config/config.yaml or with "
        f"--config 'data={given}'"
    )


def _write_images(out: IO[bytes], parts: Sequence[Any], name: str) -> None:
    """Write the images of all ``parts`` to ``out``, block by block, with a line on stderr every ``PAUSE`` seconds."""
    total, done, shown = sum(len(part) for part in parts), 0, time.monotonic()
    for part in parts:
        block = max(1, BLOCK // max(1, int(np.prod(part.shape[1:]))))
        for start in range(0, len(part), block):
            images = part[start : start + block]
            out.write(images.tobytes())
            done += len(images)
            if time.monotonic() - shown >= PAUSE:
                shown = time.monotonic()
                print(f"dataset {name!r}: {done} of {total} images written", file=sys.stderr, flush=True)
