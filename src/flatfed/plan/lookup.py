"""Declared ids, their look-up, and the errors for unknown ids."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from flatfed import algorithms, errors
from flatfed.errors import ConfigError, FlatFedError, MissingData
from flatfed.runs.paths import without_label

Entry = TypeVar("Entry")
Resolved = TypeVar("Resolved")


@dataclass(frozen=True)
class Declared:
    """The ``content`` of an id, declared in ``file`` at ``key``, "" for the entire file."""

    content: Any
    file: str
    key: str = ""

    @property
    def where(self) -> str:
        """File and key, for messages."""
        return f"{self.file}: {self.key}" if self.key else self.file


class Entries(dict[str, Entry]):
    """Valid entries by id; ``refused``: id -> the error of another entry, raised when the entry is used."""

    def __init__(
        self, entries: Mapping[str, Entry] | None = None, refused: Mapping[str, FlatFedError] | None = None
    ):
        super().__init__(entries or {})
        self.refused = dict(refused or {})

    def __missing__(self, name: str) -> Entry:
        raise self.error(name) or KeyError(name)

    @property
    def declared(self) -> list[str]:
        """All ids, including refused entries."""
        return [*self, *self.refused]

    def error(self, name: str) -> FlatFedError | None:
        """Return the error of a refused entry, or of the plain entry of a labelled variant."""
        return self.refused.get(name) or self.refused.get(without_label(name))

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Record a FlatFedError of the block as the error of the entry ``name``."""
        try:
            yield
        except FlatFedError as error:
            self.pop(name, None)
            self.refused[name] = error

    def resolved(self, resolve: Callable[[str, Entry], Resolved]) -> Entries[Resolved]:
        """Return ``resolve(id, entry)`` of every entry, and its errors as refused entries."""
        entries: Entries[Resolved] = Entries(None, self.refused)
        for name, entry in self.items():
            with entries.refusing(name):
                entries[name] = resolve(name, entry)
        return entries


def raise_errors(sections: Iterable[Entries[Any]], *, missing: bool) -> None:
    """Raise a ConfigError with the errors of refused entries, one per file and key; ``missing``: also of missing data.

    An entry that needs a refused one has the same error.
    """
    errors = [error for section in sections for error in section.refused.values()]
    messages = [str(error) for error in errors if missing or not isinstance(error, MissingData)]
    if first := {tuple(message.split(": ")[:2]): message for message in reversed(messages)}:
        raise ConfigError("\n".join(reversed(first.values())))


#: Kinds of ids that files of config/ declare; their names begin with the kind.
CATALOG = ("algorithm", "dataset", "figure", "protocol", "split", "table", "table or figure")


def unknown(kind: str, name: object, ids: Collection[str], where: str, more: str = "") -> str:
    """Return the message for an undeclared id, with ``more``. Of more than 12 ids, it lists three and all files."""
    message = errors.unknown(kind, name, ids, where)
    if len(ids) > 12 and kind in CATALOG:
        first = errors.nearest(str(name), ids, kind in errors.NUMBERED)
        near = [id_ for id_ in difflib.get_close_matches(str(name), ids, n=4, cutoff=0) if id_ != first]
        listed = f"or {', '.join(near[:2])}" if first else f"nearest: {', '.join(near[:3])}"
        files = f"config/{kind}s*".replace(" or ", "s*, config/")
        message = message.rpartition("known: ")[0] + f"{listed}; all {len(ids)}: {files}"
    return message + more


def check(kind: str, name: object, ids: Collection[str], where: str, more: str = "") -> None:
    """Raise the error of ``name``, requested in ``where``, if it is not in ``ids``; unknown names get ``more``."""
    if name not in ids:
        error = ids.error(name) if isinstance(ids, Entries) else None
        raise error or ConfigError(unknown(kind, name, ids, where, more))


def entry(kind: str, name: str, entries: Mapping[str, Entry], where: str) -> Entry:
    """Return the entry ``name``; ConfigError as in :func:`check`."""
    check(kind, name, entries, where)
    return entries[name]


def check_algorithm(name: str, ids: Collection[str], where: str) -> None:
    """Refuse an algorithm that is not in ``ids``; the message names ``folders``, or the mistake in a user's file."""
    if name not in ids and algorithms.own_file(without_label(name)):
        algorithms.load(without_label(name))
    folders = ", src/flatfed/algorithms, and your folders in `folders` of config.yaml"
    check("algorithm", name, ids, where, folders)
