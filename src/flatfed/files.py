"""Atomic file writes, sealed JSON, and digests of contents."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from flatfed.errors import DataError, FlatFedError, NotJSON, os_error_message

Kind = TypeVar("Kind")

#: Errors of reading a damaged .npz file.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)

#: Seconds after which a silent server counts as stalled.
SILENCE = 60.0

#: Array entries hashed at a time.
PART = 1 << 22

#: Most bytes of data to hash before a run or a plan: more take minutes.
HASHED = 4 << 30

#: Key of the seal of a JSON file: the SHA-256 of its other content.
SEAL = "record_sha256"


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Write ``path`` atomically, through a temporary file next to it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        with open(part, mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        with contextlib.suppress(OSError):  # a read-only disk
            part.unlink()
        raise


@contextlib.contextmanager
def download_folder() -> Iterator[str]:
    """Yield a temporary folder, removed on SIGTERM, too; a server silent for :data:`SILENCE` causes a TimeoutError."""
    socket.setdefaulttimeout(SILENCE)
    handler = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory(prefix="flatfed-") as folder:
            yield folder
    finally:
        socket.setdefaulttimeout(None)
        signal.signal(signal.SIGTERM, handler)


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of killed writes of ``path`` or of files that begin with ``path`` and a point."""
    path = Path(path)
    for part in path.parent.glob(f".{path.name}.*.part"):
        part.unlink()


def check_place(path: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Raise DataError if ``path`` cannot become a file, or a ``folder``."""
    path = Path(path)
    existing = _nearest(path)
    if existing.is_symlink() and not existing.exists():
        raise DataError(f"{existing}: is a link to {os.readlink(existing)}, which does not exist; remove the link")
    if existing.is_dir() != (folder or existing != path):
        kind, expected = ("folder", "file") if existing.is_dir() else ("file", "folder")
        raise DataError(f"{existing}: is a {kind}; expected a {expected} or an unused name")


def check_writable(folders: Iterable[Path]) -> None:
    """Raise FlatFedError if a folder is not writable or cannot be created."""
    for folder in sorted({_nearest(folder) for folder in folders}):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        if read_only or not os.access(folder, os.W_OK | os.X_OK):
            problem = errno.EROFS if read_only else errno.EACCES
            message = os_error_message(OSError(problem, os.strerror(problem), str(folder)))
            raise FlatFedError(f"{message}. Nothing was started")


def _nearest(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.parents) if os.path.lexists(candidate))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    with write_whole(path, "w") as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")


def write_sealed(path: str | os.PathLike[str], value: dict[str, Any], key: str = SEAL) -> None:
    """Write ``value`` as JSON, atomically, with its seal under ``key``."""
    write_json(path, sealed(value, key))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file; NotJSON for other content."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"{path}: not JSON ({error})") from error


def read_sealed(
    make: Callable[[Any, str], Kind], path: str | os.PathLike[str], kind: str, remedy: str, key: str = SEAL
) -> Kind:
    """Return ``make(content, path)`` of a sealed JSON file; ``make`` raises DataError for wrong content.

    :raises FileNotFoundError: the file does not exist.
    :raises DataError: the file is not ``kind``, or its seal under ``key`` is missing or wrong.
    """
    try:
        content = read_json(path)
        made = make(content, str(path))
    except FileNotFoundError:
        raise
    except (OSError, DataError) as problem:
        raise misread(path, kind, problem, remedy) from None
    if key not in content:
        raise DataError(f"{path}: has no seal ({key}) to detect changes; {remedy}")
    if not intact(content, key):
        raise DataError(f"{path}: was changed after it was written ({key} does not match); {remedy}")
    return made


def misread(path: str | os.PathLike[str], kind: str, problem: object, remedy: str) -> DataError:
    return DataError(f"{path}: not {kind} ({str(problem).removeprefix(f'{path}: ')}); {remedy}")


def sealed(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return ``value`` with the digest of its other content under ``key``."""
    content = {name: entry for name, entry in value.items() if name != key}
    return {**content, key: digest_json(json.loads(json.dumps(content)))}  # as JSON reads it


def intact(value: dict[str, Any], key: str) -> bool:
    """Return whether ``value`` matches its seal under ``key``."""
    try:
        return value == sealed(value, key)
    except ValueError:  # NaN or infinite numbers
        return False


def digest_file(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of ``value`` in canonical JSON (keys sorted, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_arrays(**arrays: Any) -> str:
    """Return the SHA-256 over names, dtypes, shapes and bytes of NumPy arrays; None is ignored."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        if array is None:
            continue
        total.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        flat = array.reshape(-1)
        for start in range(0, len(flat), PART):
            total.update(flat[start : start + PART].tobytes())
    return total.hexdigest()
