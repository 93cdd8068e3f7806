"""The form of JSON that goes from one process to another: declared once, and compared with what was given.

The message names the first key that is wrong. A form is declared as a dataclass, which :func:`read` makes of the JSON
and :func:`plain` writes as such, or as a mapping for :func:`check`.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar

from flatfed.errors import DataError, absent, unknown

#: Type -> words for its values.
WORDS = {
    **{dict: "a mapping", list: "a list", str: "a text", bool: "true or false"},
    **{int: "a whole number", float: "a finite number", type(None): "null"},
}


@dataclass(frozen=True)
class Whole:
    """A whole number from ``least`` up."""

    least: int


@dataclass(frozen=True)
class Above:
    """A number above ``low`` and at ``most`` so large."""

    low: float
    most: float = math.inf


@dataclass(frozen=True)
class Some:
    """A list of at least one value of a ``form``."""

    form: Any


@dataclass(frozen=True)
class Values:
    """A mapping of texts to things of a ``form``."""

    form: Any


@dataclass(frozen=True)
class Named:
    """One of the texts ``known``, which are names of a ``kind``: of schemes, of devices."""

    kind: str
    known: tuple[str, ...]


Kind = TypeVar("Kind")


def read(kind: type[Kind], value: Any, where: str) -> Kind:
    """Return JSON as the dataclass ``kind``, with the dataclasses in it; keys that it does not have are left out.

    :raises DataError: the value is not of its form (:func:`form_of`); the message begins with ``where``.
    """
    check(value, form_of(kind), where)
    return _made(kind, value)


def reader(kind: type[Kind]) -> Callable[[Any, str], Kind]:
    """Return :func:`read` of the dataclass ``kind``."""
    return partial(read, kind)


def plain(value: Any) -> Any:
    """Return a dataclass as the JSON that :func:`read` takes: fields that equal their default are left out."""
    if is_dataclass(value):
        contents = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: plain(content) for field, content in contents if content != _default(field)}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _default(field: Field[Any]) -> Any:
    """Return the default of a field, MISSING where it has none."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


@cache
def form_of(kind: type) -> dict[str, Any]:
    """Return the form of a dataclass's JSON: its fields; those with a default may be absent.

    The type of a field says its form: one that :func:`check` knows, ``list[X]`` and ``tuple[X, ...]``, ``X | None``,
    another dataclass, or ``Annotated[X, form]`` where the type does not say enough.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    optional = {field.name: _default(field) is not MISSING for field in fields(kind)}
    return {f"{name}?" if optional[name] else name: _form(hints[name]) for name in optional}


def _form(hint: Any) -> Any:
    """Return the form that a type stands for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return arguments[1]
    if origin in (typing.Union, types.UnionType):
        return tuple(None if each is type(None) else _form(each) for each in arguments)
    if origin in (list, tuple, Sequence):
        return [_form(arguments[0])]
    if origin is dict:
        return Values(_form(arguments[1]))
    if hint is Any:
        return object
    kind = origin or hint
    return form_of(kind) if is_dataclass(kind) else kind


def _made(hint: Any, value: Any) -> Any:
    """Return a ``value``, which has the form of a type, as a value of that type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: _made(inner, value[name]) for name, inner in hints.items() if name in value})
    if origin is typing.Annotated:
        return _made(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        made = [each for each in arguments if is_dataclass(each) or typing.get_origin(each) in (list, tuple)]
        return _made(made[0], value) if made and value is not None else value
    if origin in (list, tuple):
        return origin(_made(arguments[0], each) for each in value)
    if origin is dict:
        return {key: _made(arguments[1], each) for key, each in value.items()}
    return value


def check(value: Any, form: Any, where: str) -> None:
    """Refuse a ``value``, as read from JSON, that is not of the ``form``; messages begin with ``where``.

    A form is a type (``object``: anything; ``float``: whole numbers too, but no truth values), None for null, one of
    the classes above, a list of one form (any number of such), a tuple of forms (any one of them), or a mapping of keys
    to forms: a key that ends in ``?`` may be absent, others of the value are not looked at.

    :raises DataError: naming the key as in ``evaluation.every``, the value, and what is wanted.
    """
    if not _fits(value, form):
        _refuse(value, form, where)
    inner = next(each for each in (form if isinstance(form, tuple) else (form,)) if _fits(value, each))
    if isinstance(inner, dict):
        for name, part in inner.items():
            key = name.removesuffix("?")
            if key in value:
                check(value[key], part, _inside(where, key))
            elif key == name:
                raise DataError(absent("key", key, value, where))
    elif isinstance(inner, Values):
        for key, each in value.items():
            check(each, inner.form, _inside(where, key))
    elif isinstance(inner, list | Some):
        for place, each in enumerate(value):
            check(each, inner[0] if isinstance(inner, list) else inner.form, f"{where}[{place}]")


def _fits(value: Any, form: Any) -> bool:
    """Return whether ``value`` is of the ``form``; what is inside of a mapping or a list is not looked at."""
    if isinstance(form, tuple):
        return any(_fits(value, each) for each in form)
    if form is object:
        return True
    if form is None:
        return value is None
    if isinstance(form, Whole):
        return _fits(value, int) and value >= form.least
    if isinstance(form, Above):
        return _fits(value, float) and form.low < value <= form.most
    if isinstance(form, Some):
        return isinstance(value, list) and bool(value)
    if isinstance(form, Values):
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if isinstance(form, Named):
        return isinstance(value, str) and value in form.known
    if form in (int, float):
        kinds = (int,) if form is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, form if isinstance(form, type) else type(form))


def _refuse(value: Any, form: Any, where: str) -> None:
    for named in form if isinstance(form, tuple) else (form,):
        if isinstance(named, Named) and isinstance(value, str):
            raise DataError(unknown(named.kind, value, named.known, where))
    shown = json.dumps(value, default=str)
    raise DataError(f"{where}: {shown if len(shown) <= 60 else shown[:57] + '...'} is not {_words(form)}")


def _words(form: Any) -> str:
    if isinstance(form, tuple):
        return " or ".join(map(_words, form))
    if isinstance(form, Whole):
        return f"a whole number from {form.least} up"
    if isinstance(form, Above):
        return f"a number above {form.low:g}" + (f" and at most {form.most:g}" if form.most < math.inf else "")
    if isinstance(form, Some):
        return "a list of at least one"
    if isinstance(form, Values):
        return WORDS[dict]
    if isinstance(form, Named):
        return f"one of {', '.join(form.known)}"
    kind = form if isinstance(form, type) else type(form)
    return WORDS[kind]


def _inside(where: str, key: str) -> str:
    """Return the place of ``key``: behind a colon in a file, behind a point in another key."""
    place, _, inner = where.rpartition(": ")
    return f"{place}: {inner}.{key}" if place else f"{where}: {key}"
