"""Names in the configuration that have to be those of something."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from flatfed import errors
from flatfed.errors import ConfigError

Found = TypeVar("Found")
Resolved = TypeVar("Resolved")


class Entries(dict[str, Found]):
    """Valid entries by id; ``refused``: id -> the message of an invalid one, raised where the entry is needed."""

    def __init__(self, entries: Mapping[str, Found] | None = None, refused: Mapping[str, str] | None = None):
        super().__init__(entries or {})
        self.refused = dict(refused or {})

    def __missing__(self, name: str) -> Found:
        mistake = self.mistake(name)
        raise ConfigError(mistake) if mistake else KeyError(name)

    def mistake(self, name: str) -> str | None:
        """Return the message of a refused entry, or of the entry that ``name`` is a labelled variant of."""
        return self.refused.get(name) or self.refused.get(name.partition("~")[0])

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Refuse the entry ``name`` where the block raises a ConfigError."""
        try:
            yield
        except ConfigError as error:
            self.pop(name, None)
            self.refused[name] = str(error)

    def resolved(self, resolve: Callable[[str, Found], Resolved]) -> Entries[Resolved]:
        """Return ``resolve(id, entry)`` of every entry; those for which it raises a ConfigError are refused."""
        entries: Entries[Resolved] = Entries(refused=self.refused)
        for name, entry in self.items():
            with entries.refusing(name):
                entries[name] = resolve(name, entry)
        return entries


#: Kinds of ids that files of config/ with the kind's name declare.
CATALOG = ("algorithm", "dataset", "figure", "protocol", "split", "table", "table or figure")


def unknown(kind: str, name: object, ids: Collection[str], where: str) -> str:
    """Return the message for an id that is not declared: of more than 12 ids, three and the files of all."""
    message = errors.unknown(kind, name, ids, where)
    if len(ids) <= 12 or kind not in CATALOG:
        return message
    near = ", ".join(difflib.get_close_matches(str(name), ids, n=3, cutoff=0))
    files = f"config/{kind}s*".replace(" or ", "s*, config/")
    return message.rpartition("known: ")[0] + f"nearest: {near}; all {len(ids)}: {files}"


def check(kind: str, name: object, known: Collection[str], where: str) -> None:
    """Refuse a ``name`` that ``where`` has for something of a ``kind``, and that is not ``known``.

    :raises ConfigError: with the nearest name that is, or with the mistake in the entry of that name.
    """
    if name not in known:
        mistake = known.mistake(name) if isinstance(known, Entries) else None
        raise ConfigError(mistake or unknown(kind, name, known, where))


def look_up(kind: str, name: str, known: Mapping[str, Found], where: str) -> Found:
    """Return what is ``known`` by a ``name``; ConfigError as :func:`check`."""
    check(kind, name, known, where)
    return known[name]


def check_keys(keys: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse the first of ``keys`` that is not ``known``, as :func:`check` does."""
    for key in keys:
        check("key", key, known, where)


def check_algorithm(name: str, known: Collection[str], where: str) -> None:
    """Refuse an algorithm that is not ``known``; the message says how one of one's own is found."""
    if isinstance(known, Entries) and known.mistake(name):
        check("algorithm", name, known, where)
    if name not in known:
        own = "src/flatfed/algorithms, and folders of your own that `algorithm_folders` in config.yaml names"
        raise ConfigError(f"{unknown('algorithm', name, known, where)}, {own}")
