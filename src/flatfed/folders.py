"""Whether what a workflow is about to make can be written at all: said before its first job."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import FlatFedError


def writable(folders: Iterable[Path]) -> None:
    """Raise FlatFedError for the first of ``folders`` that cannot be written to, or made where it is not there yet."""
    for folder in sorted({_standing(folder) for folder in folders}):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise FlatFedError(
                f"{folder}: read-only file system; results, resources, logs and benchmarks have to be on one that "
                f"can be written to. Nothing was started"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise FlatFedError(
                f"{folder}: the folder belongs to somebody else, or may not be written to: see `ls -ld {folder}`. "
                f"Nothing was started"
            )


def _standing(folder: Path) -> Path:
    """Return ``folder``, or the nearest one above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())
