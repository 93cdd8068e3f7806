"""Names in the configuration that have to be those of something."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from flatfed import errors
from flatfed.errors import ConfigError, FlatFedError

Found = TypeVar("Found")
Resolved = TypeVar("Resolved")


class Entries(dict[str, Found]):
    """Valid entries by id; ``refused``: id -> the message of an invalid one, raised where the entry is needed.

    ``unread``: what the message for an unknown id adds about files that may declare it and cannot be read.
    """

    def __init__(
        self, entries: Mapping[str, Found] | None = None, refused: Mapping[str, str] | None = None, unread: str = ""
    ):
        super().__init__(entries or {})
        self.refused, self.unread = dict(refused or {}), unread

    def __missing__(self, name: str) -> Found:
        mistake = self.mistake(name)
        raise ConfigError(mistake) if mistake else KeyError(name)

    @property
    def declared(self) -> list[str]:
        """Return all ids, those of refused entries too."""
        return [*self, *self.refused]

    def mistake(self, name: str) -> str | None:
        """Return the message of a refused entry, or of the entry that ``name`` is a labelled variant of."""
        return self.refused.get(name) or self.refused.get(name.partition("~")[0])

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Refuse the entry ``name`` where the block raises an error that the user can solve."""
        try:
            yield
        except FlatFedError as error:
            self.pop(name, None)
            self.refused[name] = str(error)

    def resolved(self, resolve: Callable[[str, Found], Resolved]) -> Entries[Resolved]:
        """Return ``resolve(id, entry)`` of every entry; those for which it raises an error are refused."""
        entries: Entries[Resolved] = Entries(None, self.refused, self.unread)
        for name, entry in self.items():
            with entries.refusing(name):
                entries[name] = resolve(name, entry)
        return entries


#: Kinds of ids that files of config/ with the kind's name declare.
CATALOG = ("algorithm", "dataset", "figure", "protocol", "split", "table", "table or figure")


def unknown(kind: str, name: object, ids: Collection[str], where: str, more: str = "") -> str:
    """Return the message for an id that is not declared, ``more`` in it: of over 12 ids, three and the files of all."""
    message = errors.unknown(kind, name, ids, where)
    if len(ids) > 12 and kind in CATALOG:
        first = errors.nearest(str(name), ids, kind in errors.NUMBERED)
        near = [id_ for id_ in difflib.get_close_matches(str(name), ids, n=4, cutoff=0) if id_ != first]
        listed = f"or {', '.join(near[:2])}" if first else f"nearest: {', '.join(near[:3])}"
        files = f"config/{kind}s*".replace(" or ", "s*, config/")
        message = message.rpartition("known: ")[0] + f"{listed}; all {len(ids)}: {files}"
    return message + more + (ids.unread if isinstance(ids, Entries) else "")


def check(kind: str, name: object, known: Collection[str], where: str, more: str = "") -> None:
    """Refuse a ``name`` that ``where`` has for something of a ``kind``, and that is not ``known``.

    :raises ConfigError: with the nearest name that is and ``more``, or with the mistake in the entry of that name.
    """
    if name not in known:
        mistake = known.mistake(name) if isinstance(known, Entries) else None
        raise ConfigError(mistake or unknown(kind, name, known, where, more))


def look_up(kind: str, name: str, known: Mapping[str, Found], where: str) -> Found:
    """Return what is ``known`` by a ``name``; ConfigError as :func:`check`."""
    check(kind, name, known, where)
    return known[name]


def check_algorithm(name: str, known: Collection[str], where: str) -> None:
    """Refuse an algorithm that is not ``known``; the message says how one of one's own is found."""
    own = ", src/flatfed/algorithms, and folders of your own that `algorithm_folders` in config.yaml names"
    check("algorithm", name, known, where, own)
