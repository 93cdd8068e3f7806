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

from flatfed.errors import DataError
from flatfed.files import digest_arrays, read_json, write_json, write_whole

BLOCK = 1 << 26  # bytes of images written at a time
TELL = 10.0  # seconds between two lines that say how far the writing is


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

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image (C, H, W)."""
        return tuple(self.images.shape[1:])


def load(folder: str | os.PathLike[str]) -> Dataset:
    """Return the dataset in ``folder``, its images memory-mapped (copy on write, so that torch may wrap them).

    Raises DataError for missing or unreadable files and for arrays that do not have the sizes dataset.json names.
    """
    folder = Path(folder)
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "is not there"
        raise DataError(
            f"{folder}: {found}; wanted: a dataset's folder, with dataset.json, images.npy and labels.npy, which "
            f"`python -m flatfed fetch` makes"
        )
    try:
        meta = read_json(folder / "dataset.json")
        images = np.load(folder / "images.npy", mmap_mode="c", allow_pickle=False)
        labels = np.load(folder / "labels.npy", allow_pickle=False)
        domains = np.load(folder / "domains.npy", allow_pickle=False) if meta["domains"] else None
        count, shape = meta["train"] + meta["test"], tuple(meta["shape"])
        classes, digest = meta["classes"], meta["digest"]
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise DataError(
            f"{folder}: cannot be read as a dataset ({error}); delete the folder to make it again"
        ) from error
    for file, array, expected, dtype in (
        ("images.npy", images, (count, *shape), np.uint8),
        ("labels.npy", labels, (count,), np.int64),
        ("domains.npy", domains, (count,), np.int64),
    ):
        if array is not None and (array.shape != expected or array.dtype != dtype):
            raise DataError(
                f"{folder}: {file} is {array.dtype} of shape {array.shape}, but dataset.json asks for "
                f"{np.dtype(dtype)} of shape {expected}; delete the folder to make it again"
            )
    return Dataset(
        meta["name"],
        images,
        labels,
        domains,
        classes,
        meta["train"],
        meta["test"],
        digest,
        tuple(meta["domains"] or ()),
    )


def verify(folder: str | os.PathLike[str]) -> None:
    """Read the whole dataset and compare its digest with dataset.json's; DataError where they differ."""
    found = load(folder)
    if _digest(found.images, found.labels, found.domains) != found.digest:
        raise DataError(
            f"{folder}: the arrays are not those dataset.json describes; delete the folder to make it again"
        )


def save(
    folder: str | os.PathLike[str],
    spec: dict[str, Any],
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    domains: tuple[np.ndarray, np.ndarray, list[str]] | None = None,
) -> None:
    """Write a dataset folder; dataset.json comes last, so that a folder without it is unfinished.

    ``train`` and ``test``: images (n, C, H, W) uint8 and labels (n,); ``domains``: numbers of both parts and names;
    ``spec`` is the dataset spec. Images are written in blocks of 64 MB: any view will do, or anything that has a shape
    and gives arrays for slices, and nothing is held twice.
    Raises DataError where the arrays are not what the spec says; whatever stood in ``folder`` is then untouched.
    """
    folder, name = Path(folder), spec["name"]
    labels = np.concatenate([train[1], test[1]]).astype(np.int64)
    for part, found in (("training", train[0]), ("test", test[0])):
        if list(found.shape[1:]) != list(spec["shape"]):
            raise DataError(
                f"dataset {name!r}: {part} images have shape {list(found.shape[1:])} (channels, height, width), "
                f"but `shape` in config/datasets.yaml says {list(spec['shape'])}"
            )
    _check_counts(spec, len(train[1]), len(test[1]))
    if len(labels) and (labels.min() < 0 or labels.max() >= spec["classes"]):
        raise DataError(
            f"dataset {name!r}: labels go from {labels.min()} to {labels.max()}, "
            f"but `classes: {spec['classes']}` allows 0 to {spec['classes'] - 1}"
        )
    absent = np.setdiff1d(np.arange(spec["classes"]), train[1])
    if len(absent):
        raise DataError(
            f"dataset {name!r}: no training image of class {', '.join(map(str, absent[:5]))}"
            f"{', ...' if len(absent) > 5 else ''}, but `classes: {spec['classes']}` "
            f"means labels 0 to {spec['classes'] - 1}"
        )
    index = np.concatenate(domains[:2]).astype(np.int64) if domains else None
    with write_whole(folder / "images.npy") as out:
        shape = (len(labels), *spec["shape"])
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
        _write_images(out, (train[0], test[0]), name)
        (folder / "dataset.json").unlink(missing_ok=True)
    for file, array in (("labels", labels), ("domains", index)):
        if array is not None:
            with write_whole(folder / f"{file}.npy") as out:
                np.save(out, array, allow_pickle=False)
    images = np.load(folder / "images.npy", mmap_mode="r")
    meta = {
        "name": name,
        "classes": spec["classes"],
        "shape": list(images.shape[1:]),
        "train": len(train[1]),
        "test": len(test[1]),
        "domains": domains[2] if domains else None,
        "source": spec["source"],
        "digest": _digest(images, labels, index),
        "bytes": int(images.nbytes),
    }
    write_json(folder / "dataset.json", meta)


def _check_counts(spec: dict[str, Any], train: int, test: int) -> None:
    """Refuse other numbers of images than ``spec`` declares, if it does, and say how these are declared."""
    declared = {part: spec[part] for part in ("train", "test") if part in spec}
    found = {"train": train, "test": test}
    if all(found[part] == count for part, count in declared.items()):
        return
    name, source = spec["name"], {key: value for key, value in spec["source"].items() if key != "obtain"}
    place = f"{source['path']} holds" if "path" in source else "its source gives"
    said = ", ".join(f"`{part}: {count}`" for part, count in declared.items())
    given = json.dumps({name: {**source, "images": found}})
    raise DataError(
        f"dataset {name!r}: {place} {train} training and {test} test images, but {said} is declared "
        f"(config/datasets.yaml: {name}, or `images` of its source under `data`). Where these are meant, such as a "
        f"subset, declare them in config/datasets.yaml, or for one machine under `data` in config/config.yaml or with "
        f"--config 'data={given}'"
    )


def _write_images(out: IO[bytes], parts: Sequence[Any], name: str) -> None:
    """Write the images of all ``parts`` to ``out``, block by block, and say on stderr how far it is."""
    total, done, told = sum(len(part) for part in parts), 0, time.monotonic()
    for part in parts:
        block = max(1, BLOCK // max(1, int(np.prod(part.shape[1:]))))
        for start in range(0, len(part), block):
            images = part[start : start + block]
            out.write(images.tobytes())
            done += len(images)
            if time.monotonic() - told >= TELL:
                told = time.monotonic()
                print(f"dataset {name!r}: {done} of {total} images written", file=sys.stderr, flush=True)


def _digest(images: np.ndarray, labels: np.ndarray, domains: np.ndarray | None) -> str:
    """Return the digest of a dataset's arrays."""
    return digest_arrays(images=images, labels=labels, **({} if domains is None else {"domains": domains}))
