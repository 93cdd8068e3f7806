"""Look-up of ids, and the errors for unknown ids."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from flatfed import errors
from flatfed.errors import ConfigError, FlatFedError

Entry = TypeVar("Entry")
Resolved = TypeVar("Resolved")


class Entries(dict[str, Entry]):
    """Valid entries by id.

    ``refused``: id -> the error of an invalid entry, raised when the entry is used. ``unread``: unreadable files, named
    in the error for an unknown id.
    """

    def __init__(
        self, entries: Mapping[str, Entry] | None = None, refused: Mapping[str, str] | None = None, unread: str = ""
    ):
        super().__init__(entries or {})
        self.refused, self.unread = dict(refused or {}), unread

    def __missing__(self, name: str) -> Entry:
        mistake = self.mistake(name)
        raise ConfigError(mistake) if mistake else KeyError(name)

    @property
    def declared(self) -> list[str]:
        """All ids, including refused entries."""
        return [*self, *self.refused]

    def mistake(self, name: str) -> str | None:
        """Return the error of a refused entry, or of the plain entry of a labelled variant."""
        return self.refused.get(name) or self.refused.get(name.partition("~")[0])

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Record a FlatFedError of the block as the error of the entry ``name``."""
        try:
            yield
        except FlatFedError as error:
            self.pop(name, None)
            self.refused[name] = str(error)

    def resolved(self, resolve: Callable[[str, Entry], Resolved]) -> Entries[Resolved]:
        """Return ``resolve(id, entry)`` of every entry, and its errors as refused entries."""
        entries: Entries[Resolved] = Entries(None, self.refused, self.unread)
        for name, entry in self.items():
            with entries.refusing(name):
                entries[name] = resolve(name, entry)
        return entries


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
    return message + more + (ids.unread if isinstance(ids, Entries) else "")


def check(kind: str, name: object, ids: Collection[str], where: str, more: str = "") -> None:
    """Raise the error of ``name``, requested in ``where``, if it is not in ``ids``; unknown names get ``more``."""
    if name not in ids:
        mistake = ids.mistake(name) if isinstance(ids, Entries) else None
        raise ConfigError(mistake or unknown(kind, name, ids, where, more))


def entry(kind: str, name: str, entries: Mapping[str, Entry], where: str) -> Entry:
    """Return the entry ``name``; ConfigError as in :func:`check`."""
    check(kind, name, entries, where)
    return entries[name]


def check_algorithm(name: str, ids: Collection[str], where: str) -> None:
    """Refuse an algorithm that is not in ``ids``; the message names ``algorithm_folders``."""
    folders = ", src/flatfed/algorithms, and your folders in `algorithm_folders` of config.yaml"
    check("algorithm", name, ids, where, folders)
