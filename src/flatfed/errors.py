"""Errors meant for the user: one message with the location, the value and the allowed values."""

from __future__ import annotations

import difflib
import errno
import json
import re
from collections.abc import Iterable

#: Errors of a disk or a path -> their remedy. Finished results remain, and a training resumes from its checkpoint.
REMEDIES = {
    errno.ENOSPC: "free some space, then the same command goes on from what is there",
    errno.EDQUOT: "your quota is used up: free some space, then the same command goes on from what is there",
    errno.EROFS: "results and resources have to be on a file system that can be written to",
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM),
        "the folder belongs to somebody else, or may not be written to: see `ls -ld` of it",
    ),
    errno.ENOENT: "check the path, or make it first",
    errno.EISDIR: "a file is wanted here, not a folder",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a folder is wanted where a file is"),
    errno.ENAMETOOLONG: "give it a shorter one",
    errno.ELOOP: "links lead in a circle there",
}

#: Errors that the system raises without a file's name, such as a write to a full disk.
WITHOUT_A_NAME = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)

#: Kinds of ids that contain numbers, such as ``dir0.6-100``.
NUMBERED = ("split",)

#: A number in an id.
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class FlatFedError(Exception):
    """A problem that the user can solve. The command line prints the message alone, without a trace."""


class ConfigError(FlatFedError):
    """A problem in the configuration: a file, a key, a value."""


class DataError(FlatFedError):
    """A problem with a dataset, a partition, or a file of results."""


class Shortage(FlatFedError):
    """There is not enough memory, and no setting that needs less."""


class NotJSON(DataError, ValueError):
    """A file does not hold JSON: it was cut, or it is another file."""


def unknown(kind: str, value: object, names: Iterable[object], where: str) -> str:
    """Return the message for a name that does not exist, with the nearest existing name.

    >>> unknown("algorithm", "fedsmo", ["fedavg", "fedsmoo"], "config/tables/x.yaml: rows[1]")
    "config/tables/x.yaml: rows[1]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'? known: fedavg, fedsmoo"
    """
    return f"{where}: unknown {kind} {value!r}; {instead(value, names, by_number=kind in NUMBERED)}"


def absent(kind: str, name: str, present: Iterable[str], where: str) -> str:
    """Return the message for something that is missing, with the nearest name of ``present``.

    >>> absent("column", "value", ["metric", "valeu"], "x.csv")
    "x.csv: column 'value' is missing; is it 'valeu'? there are: metric, valeu"
    """
    return f"{where}: {kind} {name!r} is missing; {instead(name, present, 'is it', 'there are')}"


def shown(value: object) -> str:
    """Return ``value`` as JSON for a message, cut to 80 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def instead(
    value: object,
    known: Iterable[object],
    question: str = "did you mean",
    listed: str = "known",
    *,
    by_number: bool = False,
) -> str:
    """Return a suggestion, the :func:`nearest` name to ``value``, if any, and all ``known`` names.

    >>> instead("fedsmo", ["fedavg", "fedsmoo"])
    "did you mean 'fedsmoo'? known: fedavg, fedsmoo"
    """
    names = sorted({str(name) for name in known})
    near = nearest(str(value), names, by_number)
    return (f"{question} {near!r}? " if near else "") + f"{listed}: {', '.join(names) or 'none'}"


def nearest(value: str, names: Iterable[str], by_number: bool = False) -> str | None:
    """Return the most similar of ``names`` to ``value``, None where none is similar.

    ``by_number``: prefer names that differ from ``value`` in numbers alone: the fewest different numbers, then the
    nearest numbers.

    >>> nearest("dir0.25-100", ["dir0.1-100", "dir0.3-100", "dir0.25-200", "dir2-100"], by_number=True)
    'dir0.3-100'
    """
    names, numbers = list(names), [float(number) for number in NUMBER.findall(value)]

    def distance(name: str) -> tuple[int, float]:
        pairs = list(zip(numbers, map(float, NUMBER.findall(name)), strict=True))
        return sum(a != b for a, b in pairs), sum(abs(a - b) / max(a, b) for a, b in pairs if a != b)

    shape = NUMBER.sub("#", value)
    similar = [name for name in names if by_number and numbers and NUMBER.sub("#", name) == shape]
    if similar:
        return min(similar, key=distance)
    return next(iter(difflib.get_close_matches(value, names, n=1, cutoff=0.5)), None)


def described(error: OSError) -> str:
    """Return the problem of a file or its disk, with the remedy."""
    name = error.filename2 or error.filename  # filename2 is the target of a renaming
    prefix = f"{name}: " if name else ""
    return f"{prefix}{(error.strerror or str(error)).lower()}; {REMEDIES[error.errno]}"
