"""Sources of datasets, one function for each kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.config.datasets import STYLES
from flatfed.data import counting, keys, order
from flatfed.data import dataset as datasets
from flatfed.data.dataset import Images, Part
from flatfed.data.image_folders import imagefolder
from flatfed.data.labels import of_images
from flatfed.errors import DataError
from flatfed.files import UNREADABLE, download_folder


def fetch(content: Mapping[str, Any], out: str | os.PathLike[str]) -> None:
    """Write the dataset folder ``out`` of a specification, JSON; DataError if it is wrong or the images do not fit."""
    spec = keys.check_dataset(content)
    where = f"dataset {spec.name!r}: source.order"
    image_order = order.read(file, where) if (file := spec.source.paths.get("order")) else None
    images = SOURCES[spec.source.source](spec)
    images = replace(images, ignored=counting.ignored(spec.source, spec.domains, f"dataset {spec.name!r}: source"))
    if spec.domains:
        images = _with_declared_domains(spec, images)
    datasets.save(out, spec, images if image_order is None else order.put(images, image_order, where))


def _with_declared_domains(spec: keys.DatasetSpecification, images: Images) -> Images:
    """Return ``images`` with domains numbered as in ``spec``."""
    declared, names, where = spec.domains, images.domain_names, f"dataset {spec.name!r}"
    if {*(names or ())} != {*declared}:
        present = ", ".join(names or ()) or "none"
        raise DataError(f"{where}: its source has other domains: {present}; expected {', '.join(declared)}")
    numbers = np.array([declared.index(name) for name in names])
    train, test = (replace(part, domains=numbers[part.domains]) for part in (images.train, images.test))
    return replace(images, train=train, test=test, domain_names=list(declared))


#: scikit-learn's digits, from the UCI repository (Alpaydin and Kaynak 1998, CC BY 4.0): ``labels`` (1797,), and images
#: (1797, 8, 8) uint8 by drawing style. Those of the style "plain" are scaled from 0..16 to 0..255 and rounded; the
#: package of commit 064f0182 drew the others.
DIGITS = Path(__file__).with_name("digits.npz")


def digits(spec: keys.DatasetSpecification) -> Images:
    """Return the 1,797 digits of 8 x 8 pixels.

    A fixed seed draws ``test`` test images, stratified by class. ``expand: rotate90`` adds the rotated digits as ten
    classes, ``expand: styles`` splits each class among ``domains`` and takes the style of the domain's name.
    """
    with np.load(DIGITS, allow_pickle=False) as file:
        labels, styles = file["labels"].astype(np.int64), {name: file[name][:, None] for name in STYLES}
    images = styles["plain"]
    order = np.random.Generator(np.random.Philox(0)).permutation(len(labels))
    ranks = np.empty(len(labels), dtype=np.int64)
    for c in range(10):
        members = order[labels[order] == c]
        ranks[members] = np.arange(len(members))
    quantiles = (ranks + 0.5) / np.bincount(labels)[labels]
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(quantiles, kind="stable")[: spec.source.test]] = True
    names, numbers = None, None
    if spec.source.expand == "rotate90":
        images = np.concatenate([images, np.rot90(images, axes=(2, 3))])
        labels, test = np.concatenate([labels, labels + 10]), np.concatenate([test, test])
    elif spec.source.expand == "styles":
        if not (names := spec.domains):
            raise DataError(f"dataset {spec.name!r}: source.expand: styles needs a list `domains`")
        numbers = ranks % len(names)
        images = np.stack([styles[name] for name in names])[numbers, np.arange(len(labels))]
    parts = [Part(images[mask], labels[mask], None if numbers is None else numbers[mask]) for mask in (~test, test)]
    return Images(*parts, names)


def torchvision(spec: keys.DatasetSpecification) -> Images:
    """Return a dataset of torchvision, downloaded or from ``path``, and checked (MD5); ``draw``: a number of images."""
    from torchvision import datasets as torchvision_datasets

    source, name, where = spec.source, spec.source.dataset, f"dataset {spec.name!r}"
    kind, parts = getattr(torchvision_datasets, name), []
    with download_folder() as folder:
        download = not source.path or _link(kind, Path(source.path), Path(folder), f"{where}: source.path")
        for train in (True, False):
            try:
                part = kind(folder, train=train, download=download, **DOWNLOADS[name])
            except (OSError, RuntimeError) as error:
                if source.path:
                    raise DataError(f"{where}: source.path: {source.path}: {error}") from error
                ordered = f", order: {source.order}" if source.order else ""
                raise DataError(
                    f"{where}: torchvision could not download {name} ({error}). Repeat the command. Without a network, "
                    f"point it at a file: --config 'data={{{spec.name}: {{source: npz, path: FILE.npz{ordered}}}}}' "
                    "with train_images (n, h, w, c), train_labels, test_images, test_labels; or at torchvision's "
                    f"archives: {{source: torchvision, dataset: {name}, path: FILE_OR_FOLDER{ordered}}}"
                ) from error
            images = np.asarray(part.data)
            if name == "EMNIST":
                images = images.transpose(0, 2, 1)  # its files hold transposed characters
            parts.append(Part(_channels_first(images), np.asarray(part.targets, dtype=np.int64)))
    if source.draw:
        parts = _draw(parts, source.draw)
    return Images(*parts)


def _link(kind: Any, path: Path, folder: Path, where: str) -> bool:
    """Link the user's files at ``path`` into ``folder``, as torchvision expects them; return whether it unpacks them.

    :raises DataError: an archive is missing, or has another MD5.
    """
    from torchvision.datasets.utils import check_integrity

    cifar, resources = hasattr(kind, "tgz_md5"), getattr(kind, "resources", ())
    archives = {kind.filename: kind.tgz_md5} if cifar else {"gzip.zip": kind.md5} if hasattr(kind, "md5") else resources
    unpacked = path / kind.base_folder if cifar and path.name != kind.base_folder else path
    if cifar and unpacked.is_dir():
        (folder / kind.base_folder).symlink_to(unpacked.absolute())
        return False
    target = folder if cifar else folder / kind.__name__ / "raw"
    target.mkdir(parents=True, exist_ok=True)
    for name, md5 in dict(archives).items():
        file = path if path.is_file() else next(path.rglob(name), path / name)
        if not check_integrity(file, md5):
            expected = f"expected torchvision's {', '.join(dict(archives))}, or a folder with all of them"
            raise DataError(f"{where}: {file} is absent or has another MD5 than {md5}; {expected}")
        (target / name).symlink_to(file.absolute())
    return True


def _draw(parts: list[Part], count: int) -> list[Part]:
    """Draw ``count`` random images, with the original ratio of train to test, in the original order."""
    sizes = [len(part.labels) for part in parts]
    train_count = round(count * sizes[0] / sum(sizes))
    rng, drawn = np.random.Generator(np.random.Philox(0)), []
    for part, size, kept in zip(parts, sizes, (train_count, count - train_count), strict=True):
        positions = np.sort(rng.permutation(size)[:kept])
        drawn.append(Part(part.images[positions], part.labels[positions]))
    return drawn


#: Class of torchvision.datasets -> further arguments.
DOWNLOADS = {"CIFAR10": {}, "CIFAR100": {}, "FashionMNIST": {}, "EMNIST": {"split": "byclass"}}


def npz(spec: keys.DatasetSpecification) -> Images:
    """Return the images of an .npz file in MedMNIST's layout, with optional train_domains, test_domains and domains."""
    path, where = spec.source.path, f"dataset {spec.name!r}"
    found = counting.read_archive(path, where)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            parts = [Part(_channels_first(arrays[f"{part}_images"]), labels) for part, (_, labels) in found.items()]
            return _with_domains(f"{where}: {path}", arrays, parts)
    except UNREADABLE as error:
        raise DataError(f"{where}: {path}: cannot be read as .npz without pickles ({error})") from error


def _with_domains(where: str, arrays: Any, parts: list[Part]) -> Images:
    domains = {name: arrays[name] for name in ("train_domains", "test_domains") if name in arrays.files}
    if not domains:
        return Images(*parts)
    if len(domains) == 1:
        raise DataError(f"{where}: has {min(domains)} alone; expected both train_domains and test_domains, or neither")
    for part, (name, numbers) in zip(parts, domains.items(), strict=True):
        if of_images(numbers, len(part.labels), f"{where}: {name}").min() < 0:
            raise DataError(f"{where}: {name} contains {numbers.min()}; expected numbers from 0")
    count = 1 + int(max(numbers.max() for numbers in domains.values()))
    names = [str(name) for name in arrays["domains"]] if "domains" in arrays.files else [str(n) for n in range(count)]
    if len(names) < count:
        numbers = f"train_domains and test_domains use numbers 0 to {count - 1}, so expected {count}"
        raise DataError(f"{where}: `domains` has {len(names)} names; {numbers}")
    train, test = (replace(part, domains=numbers) for part, numbers in zip(parts, domains.values(), strict=True))
    return Images(train, test, names)


def _channels_first(images: np.ndarray) -> np.ndarray:
    """Return (n, h, w) or (n, h, w, c) as a view (n, c, h, w)."""
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


#: Kind of source -> function of the dataset specification -> images.
SOURCES = {"sklearn": digits, "torchvision": torchvision, "npz": npz, "imagefolder": imagefolder}
