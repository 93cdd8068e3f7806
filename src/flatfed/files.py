"""Atomic file writes, sealed JSON, and digests of contents."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from flatfed.errors import DataError, FlatFedError, NotJSON, described

Kind = TypeVar("Kind")

#: Errors of reading a damaged, encrypted or foreign .npz file, or one larger than the memory.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)

#: Number of array entries that are hashed at a time.
PART = 1 << 22

#: Key of the SHA-256 of all other content of a sealed JSON file.
SEAL = "record_sha256"


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Write ``path`` atomically: open a temporary file next to it, flush it to disk, rename it to ``path``.

    A reader sees the old or the new content, never a part. An error removes the temporary file.
    """
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
            error.filename = str(path)  # a failed write does not name its file
        with contextlib.suppress(OSError):  # the disk may be full or read-only
            part.unlink()
        raise


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that a process killed in :func:`write_whole` left for ``path``.

    Also removes those of neighbouring files whose names begin with ``path``'s name and a point.
    """
    path = Path(path)
    for part in path.parent.glob(f".{path.name}.*.part"):
        part.unlink()


def unfinished(out: str | os.PathLike[str], identity: dict[str, Any]) -> Path:
    """Return the path prefix of the hidden files that keep the finished parts of the result ``out``.

    The prefix holds a digest of ``identity``, everything that decides the result: a stopped call finds its parts again,
    and a call with another model, data or settings neither uses nor removes them.
    """
    path = Path(out).with_name(f".{Path(out).name}.{digest_json(identity)[:16]}")
    remove_parts(path)
    return path


def check_place(path: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Refuse a file path that is a folder, a ``folder`` path that is a file, and a path below a file.

    Call it before computing: the path need not exist.

    :raises DataError: naming the existing file or folder.
    """
    path = Path(path)
    existing = _nearest(path)
    if existing.is_dir() != (folder or existing != path):
        kind, expected = ("folder", "file") if existing.is_dir() else ("file", "folder")
        raise DataError(f"{existing}: is a {kind}; a {expected} is wanted, or a name that is free")


def check_writable(folders: Iterable[Path]) -> None:
    """Refuse ``folders`` that are not writable, or that do not exist and cannot be created.

    :raises FlatFedError: naming the first.
    """
    for folder in sorted({_nearest(folder) for folder in folders}):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        if read_only or not os.access(folder, os.W_OK | os.X_OK):
            problem = errno.EROFS if read_only else errno.EACCES
            raise FlatFedError(f"{described(OSError(problem, os.strerror(problem), str(folder)))}. Nothing was started")


def _nearest(path: Path) -> Path:
    """Return ``path``, or the nearest folder above it that exists."""
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    with write_whole(path, "w") as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")


def write_sealed(path: str | os.PathLike[str], value: dict[str, Any], key: str = SEAL) -> None:
    """Write ``value`` as JSON, atomically, with its seal under ``key``; :func:`read_sealed` reads it."""
    write_json(path, sealed(value, key))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file; NotJSON (a DataError and a ValueError) for other content."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"{path}: not JSON ({error}): damaged, or another file") from error


def read_sealed(
    make: Callable[[Any, str], Kind], path: str | os.PathLike[str], what: str, remedy: str, key: str = SEAL
) -> Kind:
    """Return ``make(content, path)`` of a JSON file of :func:`write_sealed`; ``what`` describes it in messages.

    ``make`` raises DataError for wrong content.

    :raises FileNotFoundError: there is no such file.
    :raises DataError: the file cannot be read, has other content, or its seal under ``key`` is missing or does not fit
        the content; the message ends with ``remedy``.
    """
    try:
        content = read_json(path)
        made = make(content, str(path))
    except FileNotFoundError:
        raise
    except (OSError, DataError) as problem:
        raise misread(path, what, problem, remedy) from None
    if key not in content:
        raise DataError(f"{path}: has no seal ({key}), without which an edit is not noticed; {remedy}")
    if not intact(content, key):
        raise DataError(f"{path}: was changed after it was written ({key} is not that of what it says); {remedy}")
    return made


def misread(path: str | os.PathLike[str], what: str, problem: object, remedy: str) -> DataError:
    """Return the error that the file ``path`` is not ``what``; a ``problem`` may begin with the path."""
    return DataError(f"{path}: not {what} ({str(problem).removeprefix(f'{path}: ')}); {remedy}")


def sealed(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return ``value`` with the digest of its other content under ``key``, which :func:`intact` checks."""
    content = {name: entry for name, entry in value.items() if name != key}
    return {**content, key: digest_json(json.loads(json.dumps(content)))}  # normalised as a reader sees it


def intact(value: dict[str, Any], key: str) -> bool:
    """Return whether ``value`` is unchanged since it was :func:`sealed`."""
    try:
        return value == sealed(value, key)
    except ValueError:  # NaN or infinite numbers: FlatFed never writes them
        return False


def digest_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of ``value`` in canonical JSON (keys sorted, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_arrays(**arrays: Any) -> str:
    """Return the SHA-256 over name, dtype, shape and bytes of NumPy arrays, ignoring None.

    Reads memory-mapped arrays in parts; copies arrays that are not contiguous.
    """
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        if array is None:
            continue
        total.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        flat = array.reshape(-1)
        for start in range(0, len(flat), PART):
            total.update(flat[start : start + PART].tobytes())
    return total.hexdigest()
