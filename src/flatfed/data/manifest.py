"""``dataset.json``, the description of a dataset's folder. Imports no NumPy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from flatfed import forms
from flatfed.files import read_json, write_json

NAME = "dataset.json"
#: Keys of a source that are paths of one machine.
PATHS = ("path", "order")


@dataclass(frozen=True, kw_only=True)
class Manifest:
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
    write_json(path, forms.plain(manifest))


def read(path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest in ``path``; OSError or DataError if it is unreadable."""
    return forms.read(Manifest, read_json(path), str(path))
