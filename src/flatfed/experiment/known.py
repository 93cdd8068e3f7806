"""Names in the configuration that have to be those of something."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from flatfed import algorithms as registry
from flatfed.errors import ConfigError, unknown

Found = TypeVar("Found")


def check(kind: str, name: object, known: Collection[str], where: str) -> None:
    """Refuse a ``name`` that ``where`` has for something of a ``kind``, and that is not ``known``.

    :raises ConfigError: with the nearest name that is.
    """
    if name not in known:
        raise ConfigError(unknown(kind, name, known, where))


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
    if name not in known:
        raise registry.unknown_algorithm(name, known, where)
