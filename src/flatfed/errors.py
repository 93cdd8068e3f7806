"""Errors for the user: one message with location, value and allowed values."""

from __future__ import annotations

import difflib
import errno
import json
import re
import unicodedata
from collections.abc import Iterable

#: Disk or path error -> remedy.
REMEDIES = {
    errno.ENOSPC: "free some space and repeat the command: it continues",
    errno.EDQUOT: "your quota is full: free some space and repeat the command: it continues",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`) and repeat the command: it continues",
    errno.EROFS: "results and resources need a writable file system",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "you lack the permission: see `ls -ld` of the folder"),
    errno.ENOENT: "check the path, or create it",
    errno.EISDIR: "expected a file, not a folder",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "expected a folder, not a file"),
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "the symbolic links form a circle: remove one",
}

#: Errors explained even without a file name.
WITHOUT_A_NAME = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)

#: Kinds of ids that contain numbers, such as ``dir0.6-100``.
NUMBERED = ("split",)

NUMBER = re.compile(r"\d+(?:\.\d+)?")


class FlatFedError(Exception):
    """A problem that the user can solve, printed without a traceback."""


class ConfigError(FlatFedError):
    """A problem in the configuration."""


class DataError(FlatFedError):
    """A problem with a dataset, a partition or a result file."""


class Shortage(FlatFedError):
    """Not enough memory, and no retry is left."""


class Held(FlatFedError):
    """Another process trains the run."""


class NotJSON(DataError, ValueError):
    """A file does not contain JSON."""


def unknown(kind: str, value: object, names: Iterable[object], where: str) -> str:
    """Return the message for an unknown name, with the nearest known name.

    >>> unknown("algorithm", "fedsmo", ["fedavg", "fedsmoo"], "config/tables/x.yaml: rows[1]")
    "config/tables/x.yaml: rows[1]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'? known: fedavg, fedsmoo"
    """
    return f"{where}: unknown {kind} {value!r}; {suggestion(value, names, by_number=kind in NUMBERED)}"


def missing_message(kind: str, name: str, present: Iterable[str], where: str) -> str:
    """Return the message for a missing name, with the nearest of ``present``."""
    return f"{where}: {kind} {name!r} is missing; {suggestion(name, present, 'is it named', 'present')}"


def shortened_json(value: object) -> str:
    """Return ``value`` as JSON for a message, cut to 80 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def suggestion(
    value: object, names: Iterable[object],
    question: str = "did you mean", label: str = "known", by_number: bool = False,
) -> str:
    """Return the :func:`nearest` name as a question, and all ``names``."""
    names = sorted({str(name) for name in names})
    near = nearest(str(value), names, by_number)
    hint = other_form(str(value), names).removeprefix("; ")
    hint = f"{hint}; " if hint else f"{question} {near!r}? " if near else ""
    return f"{hint}{label}: {', '.join(names) or 'none'}"


def other_form(value: str, names: Iterable[str]) -> str:
    """Return a remark if one of ``names`` looks like ``value`` but has other Unicode characters, else "".

    >>> other_form("caf\\u00e9", ["cafe\\u0301"])
    "; 'cafe\\\\u0301' there is the same text in another Unicode form: rename one of them"
    """
    for name in names:
        if name != value and unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", value):
            return f"; {name!a} there is the same text in another Unicode form: rename one of them"
    return ""


def nearest(value: str, names: Iterable[str], by_number: bool = False) -> str | None:
    """Return the most similar of ``names`` to ``value``, None if none is similar.

    ``by_number``: first consider names that differ in numbers only: fewest different numbers, then the closest.
    """
    names, numbers = list(names), [float(number) for number in NUMBER.findall(value)]

    def distance(name: str) -> tuple[int, float]:
        pairs = list(zip(numbers, map(float, NUMBER.findall(name)), strict=True))
        return sum(a != b for a, b in pairs), sum(abs(a - b) / max(a, b) for a, b in pairs if a != b)

    shape = NUMBER.sub("#", value)
    similar = [name for name in names if by_number and numbers and NUMBER.sub("#", name) == shape]
    if similar:
        return min(similar, key=distance)
    return next(iter(difflib.get_close_matches(value, names, n=1, cutoff=0.67)), None)


def os_error_message(error: OSError) -> str:
    """Return the message and remedy for a problem of a file or disk."""
    name = error.filename2 or error.filename  # filename2: the target of a rename
    prefix = f"{name}: " if name else ""
    return f"{prefix}{(error.strerror or str(error)).lower()}; {REMEDIES[error.errno]}"
