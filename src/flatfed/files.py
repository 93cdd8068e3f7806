"""Files that are whole or absent, and digests of what they hold."""

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

#: What reading a damaged, encrypted or foreign .npz file raises, or one that claims more than fits.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)

#: Entries of an array that are hashed at a time.
PART = 1 << 22

#: Key of the SHA-256 of all else in a sealed JSON file.
SEAL = "record_sha256"


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path``; on success flush it to disk and rename it over ``path``.

    A reader sees the old content or the new, never a part. On any error the temporary file is removed.
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
            error.filename = str(path)  # a write that fails does not say of which file
        with contextlib.suppress(OSError):  # the disk may be full, or read-only by now
            part.unlink()
        raise


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of ``path`` that a process left which was killed in :func:`write_whole`.

    Those of files beside it whose names begin with its own and a point are removed as well.
    """
    path = Path(path)
    for part in path.parent.glob(f".{path.name}.*.part"):
        part.unlink()


def unfinished(out: str | os.PathLike[str], identity: dict[str, Any]) -> Path:
    """Return what the names of hidden files begin with that keep the finished parts of the result ``out``.

    The name holds a digest of ``identity``, all that decides the result: a call that was stopped finds its own files
    again, and one with another model, data or settings neither takes them nor loses them.
    """
    path = Path(out).with_name(f".{Path(out).name}.{digest_json(identity)[:16]}")
    remove_parts(path)
    return path


def check_place(path: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Refuse the path of a file, or of a ``folder``, where something of the other kind stands, or above it a file.

    Nothing has to be there yet: it is called before anything is computed for the file.

    :raises DataError: naming what stands there.
    """
    path = Path(path)
    standing = _nearest(path)
    if standing.is_dir() != (folder or standing != path):
        kind, wanted = ("folder", "file") if standing.is_dir() else ("file", "folder")
        raise DataError(f"{standing}: is a {kind}; a {wanted} is wanted, or a name that is free")


def check_writable(folders: Iterable[Path]) -> None:
    """Refuse ``folders`` that cannot be written to, or that are absent and cannot be made.

    :raises FlatFedError: naming the first.
    """
    for folder in sorted({_nearest(folder) for folder in folders}):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        if read_only or not os.access(folder, os.W_OK | os.X_OK):
            problem = errno.EROFS if read_only else errno.EACCES
            raise FlatFedError(f"{described(OSError(problem, os.strerror(problem), str(folder)))}. Nothing was started")


def _nearest(path: Path) -> Path:
    """Return ``path``, or the nearest folder above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, whole."""
    with write_whole(path, "w") as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")


def write_sealed(path: str | os.PathLike[str], value: dict[str, Any], key: str = SEAL) -> None:
    """Write ``value`` as JSON, whole, with its seal under ``key``; :func:`read_sealed` reads it."""
    write_json(path, sealed(value, key))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; NotJSON, a DataError and a ValueError, where it holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"{path}: not JSON ({error}): damaged, or another file") from error


def read_sealed(
    make: Callable[[Any, str], Kind], path: str | os.PathLike[str], what: str, remedy: str, key: str = SEAL
) -> Kind:
    """Return what ``make`` makes of the JSON in the file ``path`` of :func:`write_sealed`, which should hold ``what``.

    ``make`` takes the content and the file's name, and raises DataError for other content.

    :raises FileNotFoundError: there is no such file.
    :raises DataError: the file cannot be read, holds something else, or the seal under ``key`` is missing or not that
        of the content; the message ends with ``remedy``.
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
    """Return the error that the file ``path`` is not ``what`` it should be; a ``problem`` may begin with the path."""
    return DataError(f"{path}: not {what} ({str(problem).removeprefix(f'{path}: ')}); {remedy}")


def sealed(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return ``value`` with a digest of all else in it under ``key``, so that :func:`intact` notices a change."""
    content = {name: each for name, each in value.items() if name != key}
    return {**content, key: digest_json(json.loads(json.dumps(content)))}  # the same after it is read


def intact(value: dict[str, Any], key: str) -> bool:
    """Return whether ``value`` holds what it held when it was :func:`sealed`."""
    try:
        return value == sealed(value, key)
    except ValueError:  # infinite numbers, or none: nothing of ours was written with such
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
    """Return the SHA-256 over name, dtype, shape and bytes of NumPy arrays; those that are None are left out.

    Memory-mapped ones are read in parts; others that are not contiguous are copied.
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
