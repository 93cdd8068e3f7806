"""``dataset.json``, the description of a dataset's folder. Imports no NumPy."""

from __future__ import annotations

import os
from typing import Any

from flatfed.config.datasets import PATHS, Source
from flatfed.config.document import JsonDocument
from flatfed.files import read_sealed, write_sealed

NAME = "dataset.json"
REMEDY = "delete the folder to fetch it again"

#: Published dataset -> digests of its images, one for each known order.
DIGESTS: dict[str, tuple[str, ...]] = {
    # The order of results/published/orders/cifar10.npz, of all runs in results/published.
    "cifar10": ("6adf59017ff70f169ba675edfdc5a7f9dc209f08b55331b8eaa09163ac6cbebf",),
    **dict.fromkeys(("cifar100", "emnist", "fashion_mnist"), ()),
}


class Manifest(JsonDocument):
    """A dataset of ``train`` and ``test`` images of ``shape`` (C, H, W) uint8, ``bytes`` in total.

    ``domains``: their names, or None. ``source``: without its paths, because a moved file must not cause a new
    training. ``digest``: SHA-256 of all arrays. ``version``: of the code that wrote them. ``ignored``: numbers of files
    next to the images that were not read, by suffix and folder.
    """

    name: str
    classes: int
    shape: list[int]
    train: int
    test: int
    domains: list[str] | None
    source: dict[str, Any]
    digest: str
    bytes: int
    version: int | None = None
    ignored: dict[str, int] | None = None


def shared(source: Source) -> dict[str, Any]:
    """Return a ``source`` without its paths."""
    return dict(sorted(source.model_dump(exclude_unset=True, exclude={*PATHS}).items()))


def write(path: str | os.PathLike[str], manifest: Manifest) -> None:
    """Write ``manifest`` to ``path``, atomically, with its seal."""
    write_sealed(path, manifest.as_json())


def read(path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest in ``path``; FileNotFoundError without it, DataError for a damaged or edited file."""
    return read_sealed(Manifest.of_json, path, "that of a dataset", REMEDY)


def doubt(name: str, digest: str, manifest: Manifest | None) -> str:
    """Return a note on images with ``digest`` that are not known to be those of the published dataset ``name``, or "".

    The images of ``manifest`` are known if torchvision read them, because it checks the MD5 of its archives. Other
    datasets have no published contents: their images depend on Pillow's version or are a user's.
    """
    proven = manifest is not None and manifest.digest == digest and manifest.source["source"] == "torchvision"
    if name not in DIGESTS or digest in DIGESTS[name] or proven:
        return ""
    return (
        f"dataset {name!r}: these may not be the published images: their digest {digest[:12]} is unknown (other "
        "contents or another order). A torchvision source proves them; `order` of a source restores a known order"
    )
