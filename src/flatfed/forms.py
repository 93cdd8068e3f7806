"""The form that JSON of ours has, said once and held against what was given: the first thing that is wrong is named."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from flatfed.errors import DataError, absent, unknown

#: Type -> words for its values.
WORDS = {
    **{dict: "a mapping", list: "a list", str: "a text", bool: "true or false"},
    **{int: "a whole number", float: "a finite number", type(None): "null"},
}


@dataclass(frozen=True)
class Whole:
    """A whole number that is at ``least`` so large."""

    least: int


@dataclass(frozen=True)
class Share:
    """A number above 0 and at most 1."""


@dataclass(frozen=True)
class Some:
    """A list of at least one thing of a ``form``."""

    form: Any


@dataclass(frozen=True)
class Named:
    """One of the texts ``known``, each a ``kind`` of thing."""

    kind: str
    known: tuple[str, ...]


def check(value: Any, form: Any, where: str) -> None:
    """Refuse a ``value``, as read from JSON, that is not of the ``form``; messages begin with ``where``.

    A form is a type (``object``: anything; ``float``: whole numbers too, but no truth values), None for null, a
    :class:`Whole`, a :class:`Share`, a :class:`Named`, a :class:`Some`, a list of one form (any number of such), a
    tuple of forms (any one of them), or a mapping of keys to forms: a key that ends in ``?`` may be absent, others of
    the value are not looked at.

    :raises DataError: naming the key as in ``evaluation.every``, the value, and what is wanted.
    """
    if not _is(value, form):
        _refuse(value, form, where)
    alternatives = form if isinstance(form, tuple) else (form,)
    inner = next(one for one in alternatives if _is(value, one))
    if isinstance(inner, dict):
        for name, part in inner.items():
            key = name.removesuffix("?")
            if key in value:
                check(value[key], part, _inside(where, key))
            elif key == name:
                raise DataError(absent("key", key, value, where))
    elif isinstance(inner, list | Some):
        for place, one in enumerate(value):
            check(one, inner.form if isinstance(inner, Some) else inner[0], f"{where}[{place}]")


def _is(value: Any, form: Any) -> bool:
    """Return whether ``value`` is of the ``form``, what is inside of a mapping or a list aside."""
    if isinstance(form, tuple):
        return any(_is(value, one) for one in form)
    if form is object:
        return True
    if form is None:
        return value is None
    if isinstance(form, Whole):
        return _is(value, int) and value >= form.least
    if isinstance(form, Share):
        return _is(value, float) and 0 < value <= 1
    if isinstance(form, Some):
        return isinstance(value, list) and bool(value)
    if isinstance(form, Named):
        return isinstance(value, str) and value in form.known
    if form in (int, float):
        kinds = (int,) if form is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, form if isinstance(form, type) else type(form))


def _refuse(value: Any, form: Any, where: str) -> None:
    if isinstance(form, Named) and isinstance(value, str):
        raise DataError(unknown(form.kind, value, form.known, where))
    shown = json.dumps(value, default=str)
    raise DataError(f"{where}: {shown if len(shown) <= 60 else shown[:57] + '...'} is not {_words(form)}")


def _words(form: Any) -> str:
    if isinstance(form, tuple):
        return " or ".join(map(_words, form))
    if isinstance(form, Whole):
        return f"a whole number from {form.least} up"
    if isinstance(form, Share):
        return "a number above 0 and at most 1"
    if isinstance(form, Some):
        return "a list of at least one"
    if isinstance(form, Named):
        return f"one of {', '.join(form.known)}"
    kind = form if isinstance(form, type) else type(form)
    return WORDS[kind]


def _inside(where: str, key: str) -> str:
    """Return the place of ``key``: behind a colon in a file, behind a point in another key."""
    place, _, inner = where.rpartition(": ")
    return f"{place}: {inner}.{key}" if place else f"{where}: {key}"
