"""Declared ids, their look-up, and the messages of mistakes."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from flatfed import algorithms, errors
from flatfed.errors import ConfigError, FlatFedError
from flatfed.runs.paths import without_label
from flatfed.user_files import kind_of

Entry = TypeVar("Entry")


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


class UnknownId(ConfigError):
    """An id of a ``kind`` that is not declared."""

    def __init__(self, message: str, kind: str, name: object):
        super().__init__(message)
        self.kind, self.name = kind, str(name)


class Several(ConfigError):
    """Several ``errors``, a line for each."""

    def __init__(self, errors: Iterable[FlatFedError]):
        self.errors = list(errors)
        super().__init__("\n".join(dict.fromkeys(map(str, self.errors))))


#: In place of the ids of a file that cannot be read.
ALL = "*"


class Mistakes(list[FlatFedError]):
    """All mistakes so far.

    ``wrong``: kind and id of the entries that have some, :data:`ALL` of a file that cannot be read. That such an id is
    unknown to others is no further mistake.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrong: set[tuple[str, str]] = set()

    @contextmanager
    def noted(self, entries: Iterable[tuple[str, str]] = ()) -> Iterator[None]:
        """Note a FlatFedError of the block, which ends there: these ``entries`` are wrong."""
        try:
            yield
        except FlatFedError as error:
            self += [part for part in getattr(error, "errors", [error]) if not self._follows(part)]
            self.wrong.update(entries)

    def note(self, check: Callable[..., object], *arguments: object, **options: object) -> None:
        """Note the FlatFedError of a ``check`` with these arguments."""
        with self.noted():
            check(*arguments, **options)

    def add(self, message: str) -> None:
        """Note the mistake that ``message`` describes."""
        self.append(ConfigError(message))

    def stop(self) -> None:
        """Raise the mistakes, if there are any."""
        if self:
            raise Several(self)

    def _follows(self, error: FlatFedError) -> bool:
        if not isinstance(error, UnknownId):
            return False
        ids = [id_ for kind, id_ in self.wrong if kind == error.kind]
        return ALL in ids or without_label(error.name) in ids or bool(fnmatch.filter(ids, error.name))


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
        raise UnknownId(unknown(kind, name, ids, where, more), kind, name)


def entry(kind: str, name: str, entries: Mapping[str, Entry], where: str) -> Entry:
    """Return the entry ``name``; ConfigError as in :func:`check`."""
    check(kind, name, entries, where)
    return entries[name]


def check_algorithm(name: str, ids: Collection[str], where: str) -> None:
    """Refuse an algorithm that is not in ``ids``; the message has a remedy, or the mistake in a user's file."""
    if name not in ids and (file := algorithms.own_file(without_label(name))):
        algorithms.load(without_label(name))
        if kind_of(file) == "model":
            raise ConfigError(f"{where}: {file} has a function `build`, so it is a model; rename the function")
    remedy = ", src/flatfed/algorithms, and your folders in `folders` of config.yaml"
    if (base := without_label(name)) != name and base in ids:
        remedy = f"; or declare it, such as `algorithms: {{{name}: {{set: {{KEY: VALUE}}}}}}`"
    check("algorithm", name, ids, where, remedy)
