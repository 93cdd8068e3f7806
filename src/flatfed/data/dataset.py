"""Datasets on disk: images.npy, labels.npy, domains.npy and dataset.json in ``resources/<dataset>/``."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from flatfed.data import VERSION
from flatfed.data import manifest as manifests
from flatfed.data.counting import not_read
from flatfed.data.keys import DatasetSpecification
from flatfed.data.labels import check as check_labels
from flatfed.data.manifest import REMEDY, Manifest
from flatfed.errors import DataError
from flatfed.files import HASHED, digest_arrays, write_whole

BLOCK = 1 << 26  # bytes of images per write
MOST_DAMAGED = 20  # unreadable images in a message


@dataclass(frozen=True)
class Part:
    """The training or the test images of a source.

    ``images`` (n, C, H, W) uint8, or an object with this shape that returns arrays for slices; ``labels`` (n,)
    integers; ``domains`` (n,) indices of domain names, or None.
    """

    images: np.ndarray | Any
    labels: np.ndarray
    domains: np.ndarray | None = None


@dataclass(frozen=True)
class Images:
    """Both parts of a source; ``ignored``: see :func:`flatfed.data.counting.ignored`."""

    train: Part
    test: Part
    domain_names: Sequence[str] | None = None
    ignored: Mapping[str, int] | None = None

    @property
    def labels(self) -> np.ndarray:
        """Labels (N,) int64 of both parts."""
        return np.concatenate([self.train.labels, self.test.labels]).astype(np.int64)

    @property
    def domains(self) -> np.ndarray | None:
        """Domain indices (N,) int64 of both parts, or None."""
        if self.domain_names is None:
            return None
        return np.concatenate([self.train.domains, self.test.domains]).astype(np.int64)


@dataclass(frozen=True)
class Dataset:
    """A loaded dataset: ``train`` training images, then ``test`` test images.

    ``images`` (N, C, H, W) uint8, memory-mapped; ``labels`` and ``domains`` (N,) int64; ``digest``: SHA-256 of all.
    """

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
    """Return the dataset in ``folder``; DataError if a file is missing, unreadable or contradicts dataset.json."""
    folder = Path(folder)
    if not folder.is_dir():
        expected = "expected a folder with dataset.json, images.npy and labels.npy, which `flatfed fetch` makes"
        raise DataError(f"{folder}: {'is a file' if folder.exists() else 'does not exist'}; {expected}")
    try:
        manifest = manifests.read(folder / manifests.NAME)
        # copy on write, because torch needs writable arrays
        images = np.load(folder / "images.npy", mmap_mode="c", allow_pickle=False)
        labels = np.load(folder / "labels.npy", allow_pickle=False)
        domains = np.load(folder / "domains.npy", allow_pickle=False) if manifest.domains else None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{folder}: cannot be read as a dataset ({error}); {REMEDY}") from error
    counts, names = (manifest.train, manifest.test), tuple(manifest.domains or ())
    return Dataset(manifest.name, images, labels, domains, manifest.classes, *counts, manifest.digest, names)


def verify(folder: str | os.PathLike[str]) -> None:
    """Refuse a dataset whose digest differs from dataset.json's; those over ``HASHED`` bytes are not verified."""
    dataset = load(folder)
    if dataset.images.nbytes > HASHED:
        return
    if digest_arrays(images=dataset.images, labels=dataset.labels, domains=dataset.domains) != dataset.digest:
        raise DataError(f"{folder}: the arrays are not those of dataset.json; {REMEDY}")


def save(folder: str | os.PathLike[str], spec: DatasetSpecification, source_images: Images) -> None:
    """Write ``source_images`` to a dataset's folder.

    :raises DataError: the arrays differ from the specification ``spec``; the old content of ``folder`` remains.
    """
    folder, name, classes = Path(folder), spec.name, spec.classes
    train, test = source_images.train, source_images.test
    labels, domains = source_images.labels, source_images.domains
    for part, images in (("training", train.images), ("test", test.images)):
        if (shape := list(images.shape[1:])) != spec.shape:
            actual = f"{part} images have shape {shape} (channels, height, width)"
            raise DataError(f"dataset {name!r}: {actual}, but `shape` in config/datasets.yaml is {spec.shape}")
    _check_counts(spec, {"train": len(train.labels), "test": len(test.labels)})
    check_labels(train.labels, test.labels, classes, f"dataset {name!r}")
    with write_whole(folder / "images.npy") as out:
        shape = (len(labels), *spec.shape)
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
        _write_images(out, (train.images, test.images), name)
        (folder / manifests.NAME).unlink(missing_ok=True)  # a folder without it is unfinished
    for file, array in (("labels", labels), ("domains", domains)):
        if array is not None:
            with write_whole(folder / f"{file}.npy") as out:
                np.save(out, array, allow_pickle=False)
    images = np.load(folder / "images.npy", mmap_mode="r")
    manifest = Manifest(
        name=name,
        classes=classes,
        shape=list(images.shape[1:]),
        train=len(train.labels),
        test=len(test.labels),
        domains=source_images.domain_names,
        # in one order: a job whose input has other bytes runs again
        source=manifests.shared(spec.source),
        version=VERSION,
        digest=digest_arrays(images=images, labels=labels, domains=domains),
        bytes=int(images.nbytes),
        ignored=dict(source_images.ignored) if source_images.ignored else None,
    )
    manifests.write(folder / manifests.NAME, manifest)
    remarks = sum((getattr(part.images, "remarks", Counter()) for part in (train, test)), Counter())
    hashes = np.array([hash(image.tobytes()) for image in images])
    remarks["several labels"] = _repeated(hashes, labels)
    remarks["equals in training and test data"] = _repeated(hashes, np.arange(len(labels)) < len(train.labels))
    for remark, count in (+remarks).items():
        print(f"dataset {name!r}: warning: images with {remark}: {count}", file=sys.stderr)
    if source_images.ignored:
        print(f"dataset {name!r}: warning: {not_read(source_images.ignored)}", file=sys.stderr)
    if note := manifests.doubt(name, manifest.digest, manifest):
        print(note, file=sys.stderr)


def _check_counts(spec: DatasetSpecification, counts: dict[str, int]) -> None:
    declared = spec.model_dump(exclude_unset=True, include={"train", "test"})
    if declared.items() <= counts.items():
        return
    name, source = spec.name, spec.source.model_dump(exclude_unset=True, exclude={"obtain"})
    holder = f"{spec.source.path} holds" if "path" in spec.source.paths else "its source gives"
    raise DataError(
        f"dataset {name!r}: {holder} {counts['train']} training and {counts['test']} test images, but "
        f"{', '.join(f'`{part}: {count}`' for part, count in declared.items())} is declared (config/datasets.yaml: "
        f"{name}, or `images` of its source under `data`). If you mean these images, declare them there or with "
        f"--config 'data={json.dumps({name: {**source, 'images': counts}})}'"
    )


def _repeated(hashes: np.ndarray, values: np.ndarray) -> int:
    """Return the number of different images with several ``values``."""
    groups, _ = np.unique(np.stack([hashes, values]), axis=1)
    return int((np.unique(groups, return_counts=True)[1] > 1).sum())


def _write_images(out: IO[bytes], parts: Sequence[Any], name: str) -> None:
    """Write the images of ``parts`` to ``out``; DataError with all files that cannot be read."""
    for part in parts:
        block = max(1, BLOCK // max(1, int(np.prod(part.shape[1:]))))
        for start in range(0, len(part), block):
            out.write(part[start : start + block].tobytes())
    if damaged := [text for part in parts for text in getattr(part, "damaged", [])]:
        more = [f"... and {len(damaged) - MOST_DAMAGED} more"] if len(damaged) > MOST_DAMAGED else []
        raise DataError(f"dataset {name!r}: unreadable images: {'; '.join([*damaged[:MOST_DAMAGED], *more])}")
