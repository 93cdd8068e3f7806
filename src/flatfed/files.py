"""Files that are whole or absent, and digests of what they hold."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from flatfed.errors import DataError, FlatFedError, NotJSON


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path``; on success flush it to disk and rename it over ``path``.

    A reader sees the old content or the new, never a part. On any error the temporary file is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        encoding = None if "b" in mode else "utf-8"
        with os.fdopen(handle, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write that fails does not say of which file
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def check_place(path: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Refuse ``path`` as that of a file to write, or of a ``folder`` for files, where a thing of the other kind stands.

    Before anything is computed for it. Raises DataError.
    """
    path = Path(path)
    standing = next(place for place in (path, *path.parents) if place.exists())
    if standing == path and standing.is_dir() and not folder:
        raise DataError(f"{path}: is a folder; wanted: the name of a file to write")
    if (standing != path or folder) and not standing.is_dir():
        raise DataError(f"{standing}: is a file; wanted: a folder, or a name that is free, to write to")


def check_writable(folders: Iterable[Path]) -> None:
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


def _umask() -> int:
    """Return the process's umask: mkstemp ignores it, and shared result folders need group access."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, whole."""
    with write_whole(path, "w") as file:
        json.dump(value, file, indent=1, allow_nan=False)
        file.write("\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; NotJSON, a DataError and a ValueError, where it holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"{path}: not JSON ({error}): damaged, or another file; make it again") from error


def sealed(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return ``value`` with the digest of all else in it under ``key``, by which a change is known (:func:`intact`)."""
    said = {name: each for name, each in value.items() if name != key}
    return {**said, key: _seal(said)}


def intact(value: dict[str, Any], key: str) -> bool:
    """Return whether a dictionary of :func:`sealed` holds what it held then; one without the ``key`` cannot tell."""
    try:
        return key not in value or value[key] == _seal({name: each for name, each in value.items() if name != key})
    except ValueError:  # numbers that are none: nothing of ours was written with such
        return False


def _seal(value: dict[str, Any]) -> str:
    return digest_json(json.loads(json.dumps(value)))  # the same before it is written and after it is read


def digest_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of ``value`` in canonical JSON (keys sorted, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_arrays(**arrays: Any) -> str:
    """Return the SHA-256 over name, dtype, shape and bytes of NumPy arrays (memory-mapped ones are read in parts)."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        part = max(1, (1 << 24) // max(1, array[:1].nbytes)) if array.ndim else 1
        blocks = (array[i : i + part] for i in range(0, len(array), part)) if array.ndim else (array,)
        for block in blocks:
            total.update(block.tobytes())
    return total.hexdigest()
