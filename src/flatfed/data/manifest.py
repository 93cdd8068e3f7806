"""``dataset.json``, the description of a dataset's folder. Imports no NumPy."""

from __future__ import annotations

import os
from typing import Any

from flatfed.config.json_document import JsonDocument
from flatfed.files import read_json, write_json

NAME = "dataset.json"
#: Keys of a source that are paths of one machine.
PATHS = {"path", "order"}


class Manifest(JsonDocument):
    """A dataset of ``train`` and ``test`` images of ``shape`` (C, H, W) uint8, ``bytes`` in total.

    ``domains``: their names, or None. ``source``: without :data:`PATHS`, because a moved file must not cause a new
    training. ``digest``: SHA-256 of all arrays.
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


def write(path: str | os.PathLike[str], manifest: Manifest) -> None:
    """Write ``manifest`` to ``path``, atomically."""
    write_json(path, manifest.as_json())


def read(path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest in ``path``; OSError or DataError if it is unreadable."""
    return Manifest.of_json(read_json(path), str(path))
