"""``run.json``, the record of a run: written here, and held here against what was written.

``files`` in it holds the SHA-256 of the files beside it, ``record_sha256`` that of everything else in it. They tell of
slips (a file edited, cut, copied to the wrong place), not of forgery. Records made before 2026-11-22 have no sums.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.files import digest_file, intact, read_json, sealed, write_json

METRICS = "metrics.csv"
MODEL = "model.safetensors"
RECORD = "run.json"
#: Files of a finished run, the record last.
FILES = (METRICS, MODEL, RECORD)

#: Lines and record of a run as far as it is, beside its checkpoint: gone when it is finished.
LINES_SO_FAR, RECORD_SO_FAR = "metrics.so-far.csv", "run.so-far.json"

SUMS, OWN = "files", "record_sha256"

#: How many training and test images the data set had that the run was made from; not in records before 2026-11-22.
IMAGES = "images"

#: Format of an entry of ``probes`` (:mod:`flatfed.engine.probe`); those of earlier versions, which have none, hold
#: other quantities under the same names.
PROBE_FORMAT = 2

#: What every record says, whoever wrote it.
NEEDED = ("description", "rounds_done", "diverged_at", "dataset_digest", "partition_digest")

AGAIN = "take the file as it was, or train the run again"


def write(path: str | os.PathLike[str], record: dict[str, Any], files: tuple[Path, ...] = ()) -> None:
    """Write the record of a run to ``path``, whole, with the sums of ``files`` (none: those it has) and its own."""
    sums = {file.name: digest_file(file) for file in files} or record.get(SUMS)
    write_json(path, sealed({**record, **({SUMS: sums} if sums else {})}, OWN))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the record in the file ``path``.

    :raises FileNotFoundError: there is none.
    :raises DataError: it cannot be read, lacks what every record says, or is not what was written.
    """
    try:
        record = read_json(path)
        lacks = [key for key in NEEDED if key not in record]
        if lacks or not isinstance(record["description"], dict):
            raise ValueError(f"key {(lacks or ['description'])[0]!r} is missing")
        for key, kinds in (("rounds_done", int), ("diverged_at", int | None)):
            if not isinstance(record[key], kinds) or isinstance(record[key], bool):
                raise ValueError(f"{key} is {record[key]!r}")
        whole = intact(record, OWN)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise DataError(f"{path}: not the record of a run ({problem}); {AGAIN}") from None
    if not whole:
        raise DataError(f"{path}: was changed after it was written ({OWN} is not that of what it says); {AGAIN}")
    return record


def of(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the record of the finished run in ``folder``; DataError where there is none, or as :func:`read`."""
    try:
        return read(Path(folder) / RECORD)
    except FileNotFoundError:
        raise DataError(f"{folder}: not a finished run: it has no {RECORD}") from None


def beside(name: str) -> str:
    """Return the name of the record beside the file ``name`` of a run, finished or not."""
    return RECORD_SO_FAR if name == LINES_SO_FAR else RECORD


def counted(record: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return {name of the run's data set: {"train": images, "test": images}}, empty where ``record`` does not say."""
    return {record["description"]["dataset"]["name"]: record[IMAGES]} if IMAGES in record else {}


def summed(record: dict[str, Any]) -> bool:
    """Return whether ``record`` has sums of its run's files; those made by earlier versions have none."""
    return bool(record.get(SUMS))


def hold(folder: str | os.PathLike[str], record: dict[str, Any], *names: str) -> str:
    """Look whether the files ``names`` in ``folder`` are those that ``record`` was written with.

    Returns "", or for a record without sums a sentence that says so.

    :raises DataError: one of them is not.
    """
    folder = Path(folder)
    sums = record.get(SUMS)
    if not sums:
        return f"{folder / RECORD} is without sums of its files (made by an earlier version)"
    for name in names:
        if name not in sums:
            raise DataError(f"{folder / RECORD}: has no sum of {name}; it has: {', '.join(sorted(sums))}")
        try:
            found = digest_file(folder / name)
        except OSError as problem:
            raise DataError(f"{folder / name}: cannot be read ({problem.strerror}); {AGAIN}") from None
        if found != sums[name]:
            raise DataError(
                f"{folder / name}: is not the file that {beside(name)} beside it was written with (SHA-256 "
                f"{found[:12]}, recorded {sums[name][:12]}); {AGAIN}"
            )
    return ""
