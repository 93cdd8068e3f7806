"""A bundle of runs: their folders as they lie under results/, and a manifest with the SHA-256 of every file."""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from flatfed.errors import DataError
from flatfed.files import digest_file, read_json

#: The manifest's name: {"format": 1, "runs": {run folder: {file: SHA-256}}}.
MANIFEST = "flatfed-export.json"

#: How the name of a bundle that is one file ends -> tarfile's mode of writing it.
ARCHIVES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz"}


def mode_of(path: Path) -> str | None:
    """Return tarfile's mode for writing ``path``, None where it is a folder's name."""
    return next((mode for ending, mode in ARCHIVES.items() if path.name.endswith(ending)), None)


def verify(folder: Path) -> None:
    """Refuse a bundle of which a file is missing, was changed, or is of no run in the manifest.

    A folder without a manifest is no bundle, and passes.

    :raises DataError: naming the file, and both digests where they differ.
    """
    path = folder / MANIFEST
    if not path.exists():
        return
    try:
        runs = read_json(path)["runs"]
        listed = {Path(run, name): digest for run, files in runs.items() for name, digest in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DataError(f"{path}: not the manifest of an export ({problem!r})") from None
    for name, digest in listed.items():
        if not (folder / name).is_file():
            raise DataError(f"{folder / name}: is missing, but {MANIFEST} lists it")
        if (found := digest_file(folder / name)) != digest:
            raise DataError(
                f"{folder / name}: SHA-256 is {found[:12]}, but {MANIFEST} says {digest[:12]}; copy it again"
            )
    for record in folder.rglob("run.json"):
        if record.relative_to(folder) not in listed:
            raise DataError(f"{record}: {MANIFEST} does not list it; import that run by its own folder")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Give the folder of a bundle, its digests verified: ``path`` itself, or what an archive of that name holds.

    :raises DataError: the archive cannot be read, or the bundle is not whole.
    """
    if mode_of(path) is None or path.is_dir():
        verify(path)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="flatfed-import-") as folder:
        try:
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
        except (OSError, EOFError, tarfile.TarError, zlib.error) as problem:
            raise DataError(f"{path}: cannot be read as an archive ({problem})") from None
        verify(Path(folder))
        yield Path(folder)
