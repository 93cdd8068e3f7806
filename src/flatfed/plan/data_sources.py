"""Datasets: their sources, the files of these on disk, their order, and the values that a declaration leaves out."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.config.datasets import SOURCE, DatasetDocument, ImageCounts, ImageFolder, Source
from flatfed.data import VERSION, counting, manifest
from flatfed.data.counting import files_read
from flatfed.data.keys import DatasetSpecification
from flatfed.errors import ConfigError, DataError
from flatfed.files import HASHED, digest_file, digest_json, read_json, write_json
from flatfed.runs.paths import Paths

if TYPE_CHECKING:
    from flatfed.data.order import Order

END = 4096  # bytes at the end of a file that a listing covers

#: Kind of source on disk -> required content of its ``path``, and the existence test.
ON_DISK = {
    "npz": (
        "a file with train_images, train_labels, test_images and test_labels, images uint8 (MedMNIST's layout)",
        Path.is_file,
    ),
    "imagefolder": (
        "a folder with train/<class>/<image> and test/<class>/<image>, or <domain>/<class>/<image> with domains: true",
        Path.is_dir,
    ),
    "torchvision": ("the archive that torchvision downloads, or a folder with its archives", Path.exists),
}


#: Mean and standard deviation of every channel, of pixels in 0..1: normalised pixels are in -2..2.
MEAN, DEVIATION = 0.5, 0.25


def check_resize(source: Source, declared: Source, where: str, base: str) -> None:
    """Refuse a ``source`` without ``resize`` if the one ``declared`` in ``base`` has it."""
    both = isinstance(source, ImageFolder) and isinstance(declared, ImageFolder)
    if both and declared.resize and not source.resize:
        raise ConfigError(
            f"{where}.resize: is missing; {base} has {declared.resize} with size {declared.size}, and without it "
            f"images are squeezed (for images that are already square, write resize: {source.size})"
        )


def files(source: Source) -> dict[str, str]:
    """Return key -> path of a source's single files."""
    return {} if isinstance(source, ImageFolder) else files_read(source, None)


def _digest(stamps: dict[str, list[Any]]) -> str | None:
    return digest_json([[key, *stamp] for key, stamp in stamps.items()]) if stamps else None


def _stamps(source: Source, paths: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return {key: [size, time]} of the files ``paths``, with the end of single files."""
    stamps = {}
    for key, path in paths.items():
        with contextlib.suppress(OSError):  # Snakemake or the fetch reports it
            about = os.stat(path)
            stamps[key] = [about.st_size, about.st_mtime_ns]
            if not isinstance(source, ImageFolder):
                with open(path, "rb") as file:
                    file.seek(max(0, about.st_size - END))
                    stamps[key].append(file.read().hex())
    return stamps


def listings(source: Source, cache: Path, domains: list[str] | None = None) -> tuple[str | None, str | None]:
    """Return the listing with which the contents of a source's files were first seen, and the present listing.

    A listing is a digest of the sizes and times of the files that a source with ``domains`` reads, None without any.
    It covers the ends of single files: an .npz file ends with the checksums of its arrays.
    ``cache``: JSON file of these listings, and of the digests of files; a file is hashed again if its stamp changes.
    Returns the present one twice if the files have over ``HASHED`` bytes or cannot be read.
    """
    paths = files_read(source, domains)
    stamps = _stamps(source, paths)
    text = _digest(stamps)
    if text is None or sum(stamp[0] for stamp in stamps.values()) > HASHED:
        return text, text
    known, digests = {"files": {}, "listings": {}}, {}
    with contextlib.suppress(OSError, DataError):
        known = read_json(cache)
    try:
        for name, stamp in stamps.items():
            seen, digest = known["files"].get(name, (None, None))
            digests[name] = digest if stamp == seen else digest_file(paths[name])
    except OSError:
        return text, text
    first = {digest_json(digests): text, **known["listings"]}
    current = {"files": {name: [stamp, digests[name]] for name, stamp in stamps.items()}, "listings": first}
    if current != known:
        with contextlib.suppress(OSError):  # a read-only disk
            write_json(cache, current)
    return first[digest_json(digests)], text


def kept(specs: Iterable[DatasetSpecification], named: Collection[str], paths: Paths) -> list[str]:
    """Return the datasets of ``specs`` that stay as they were fetched, perhaps from `data=` of an earlier call.

    Their declared source is a download or embedded, this call has no other source (``named``), and the dataset in
    resources/ is the requested one, by the present code.
    """
    counts = ("classes", "shape", "train", "test", "domains")
    names = []
    for spec in specs:
        with contextlib.suppress(OSError, DataError):
            here, source = manifest.read(paths.manifest(spec.name)), manifest.shared(spec.source)
            same = all(getattr(here, key) == getattr(spec, key) for key in counts)
            complete = same and here.version == VERSION and all(map(os.path.exists, paths.arrays(spec.name)))
            another = here.source["source"] != source["source"]
            downloaded = source["source"] == "torchvision" and here.source == source
            if complete and "path" not in spec.source.paths and spec.name not in named and (another or downloaded):
                names.append(spec.name)
    return names


def check_exists(source: Source, where: str) -> None:
    """Refuse a ``source`` on disk whose path is missing or of the wrong kind."""
    if "path" not in source.paths:
        return
    layout, exists = ON_DISK[source.source]
    path = Path(source.path).expanduser()
    if not exists(path):
        problem = "does not exist" if not path.exists() else f"is a {'folder' if path.is_dir() else 'file'}"
        raise ConfigError(f"{where}.path: {source.path!r} {problem}; expected: {layout}")


def check_order(source: Source, counts: DatasetDocument | ImageCounts, where: str) -> None:
    """Refuse an invalid ``order`` of a ``source``, or one of another number of images than ``counts``."""
    if file := source.paths.get("order"):
        from flatfed.data import order

        for part, ranks in order.read(file, f"{where}.order").ranks.items():
            if len(ranks) != (count := getattr(counts, part)):
                mismatch = f"{file} orders {len(ranks)} {part} images, not {count}"
                raise ConfigError(f"{where}.order: {mismatch}")


def expanded(source: Source) -> Source:
    """Return ``source`` with expanded ``~`` in its paths."""
    return source.model_copy(update={key: str(Path(path).expanduser()) for key, path in source.paths.items()})


def in_project(dataset: DatasetDocument, file: Path) -> DatasetDocument:
    """Return the ``dataset`` with its relative paths resolved in the nearest folder above ``file`` with a Snakefile.

    Without a Snakefile, in the folder of the file.
    """
    here, folders = Path.cwd(), Path(os.path.abspath(file)).parents
    project = next((up for up in folders if [*up.glob("Snakefile"), *up.glob("workflow/Snakefile")]), folders[0])
    paths = {key: project / Path(path).expanduser() for key, path in dataset.source.paths.items()}
    # Snakemake fetches a dataset again if its path changes in form.
    short = {key: str(path.relative_to(here) if path.is_relative_to(here) else path) for key, path in paths.items()}
    source = SOURCE.check({**dataset.source.as_written(), **short}, str(file))
    return dataset.model_copy(update={"source": source})




def check_channels(dataset: DatasetDocument, where: str) -> None:
    """Refuse a dataset whose mean or std does not have one number per channel."""
    channels = dataset.shape[0]
    for key in ("mean", "std"):
        if (count := len(getattr(dataset, key))) != channels:
            raise ConfigError(f"{where}.{key}: {count} numbers for {channels} channels; give one for each")


def check_domains(source: Source, dataset: DatasetDocument, where: str) -> None:
    """Refuse a source whose domains or domain folders differ from those of ``dataset``."""
    if isinstance(source, ImageFolder) and source.domains:
        if not dataset.domains:
            raise ConfigError(f"{where}.domains: has no effect; the dataset has no `domains`")
        counting.part_folders(source, dataset.domains, where)


def complete(name: str, entry: DatasetDocument, source: Source, where: str) -> DatasetDocument:
    """Return the complete ``entry`` of dataset ``name``, with missing counts and shape read from ``source``.

    :raises ConfigError: the source does not exist.
    :raises DataError: the images cannot be counted.
    """
    values: dict[str, Any] = {"label": entry.label or name}
    if absent := [key for key in ("classes", "shape", "train", "test") if getattr(entry, key) is None]:
        keys = ", ".join(absent)
        if source.source not in counting.COUNTS:
            raise ConfigError(f"{where}: {keys} cannot be read from source {source.source}; declare them here")
        try:
            check_exists(source, f"{where}.source")
        except ConfigError as error:  # the images may be on another machine
            raise ConfigError(f"{error}; or declare {keys} in {where}") from None
        counts = counting.COUNTS[source.source](expanded(source), entry.domains, where)
        if counts.classes < 2:
            raise ConfigError(f"{where}: {source.path!r} has {counts.classes} class; at least two are required")
        values |= {key: getattr(counts, key) for key in absent}
    channels, *_ = entry.shape or values["shape"]
    values |= {"mean": entry.mean or [MEAN] * channels, "std": entry.std or [DEVIATION] * channels}
    return entry.model_copy(update=values)


def digest(source: Source, manifest_file: str) -> str | None:
    """Return the digest of the images as runs read them, in the ``order`` of the source; None if they are not here."""
    if file := source.paths.get("order"):
        return _read_order(file).digest
    with contextlib.suppress(OSError, DataError):
        return manifest.read(manifest_file).digest
    return None


@functools.cache
def _read_order(file: str) -> Order:
    from flatfed.data import order  # imports NumPy

    return order.read(file, "order")
