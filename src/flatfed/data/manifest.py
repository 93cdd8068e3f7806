"""``dataset.json``: what lies in a dataset's folder. Needs no NumPy."""

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
    """A dataset of ``train`` and ``test`` images of one ``shape`` (C, H, W), ``bytes`` in all, uint8.

    ``domains``: their names, None where the images have none. ``source``: where the images are from, but not from which
    path, nor by which file ordered: from others they are the same, and train nothing again. ``digest``: SHA-256 of all
    arrays.
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
    """Write ``manifest`` to ``path``, whole."""
    write_json(path, forms.plain(manifest))


def read(path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest in the file ``path``.

    :raises OSError: it cannot be read.
    :raises DataError: it holds something else.
    """
    return forms.read(Manifest, read_json(path), str(path))
