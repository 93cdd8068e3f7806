"""The form of JSON that goes from one process to another: declared once, and compared with the content.

The message names the first key that is wrong. A form is declared as a dataclass, which :func:`read` makes of the JSON
and :func:`plain` writes as such, or as a mapping for :func:`check`.
"""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

from flatfed.errors import DataError, absent, shown, unknown

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Form:
    """Values for which ``fits`` is true; ``words`` name them.

    ``inside``: the form of each item of a list, of each value of a mapping; ``keys``: that of each key of a mapping.
    ``make`` turns the content of such keys into the value. ``misspelt``: the message for another text, by its place.
    """

    words: str
    fits: Callable[[Any], bool]
    inside: Any = None
    keys: dict[str, Any] | None = None
    make: Callable[..., Any] = dict
    misspelt: Callable[[str, str], str] | None = None


#: Type -> the form of its values. A truth value is an int to Python, but not in JSON.
TYPES = {
    dict: Form("a mapping", lambda value: isinstance(value, dict)),
    list: Form("a list", lambda value: isinstance(value, list)),
    str: Form("a text", lambda value: isinstance(value, str)),
    bool: Form("true or false", lambda value: isinstance(value, bool)),
    int: Form("a whole number", lambda value: type(value) is int),
    float: Form("a finite number", lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max),
    type(None): Form("null", lambda value: value is None),
    Any: Form("anything", lambda value: True),
}


def whole(least: int) -> Form:
    """Return the form of whole numbers from ``least`` up."""
    return Form(f"a whole number from {least} up", lambda value: TYPES[int].fits(value) and value >= least)


def above(low: float, most: float = math.inf) -> Form:
    """Return the form of numbers above ``low`` and at ``most`` so large."""
    limit = f" and at most {most:g}" if most < math.inf else ""
    return Form(f"a number above {low:g}{limit}", lambda value: TYPES[float].fits(value) and low < value <= most)


def some(form: Any) -> Form:
    """Return the form of lists of at least one value of a ``form``."""
    return Form("a list of at least one", lambda value: isinstance(value, list) and bool(value), form)


def named(kind: str, known: tuple[str, ...]) -> Form:
    """Return the form of the texts ``known``, which are names of a ``kind``: of schemes, of devices."""
    words = f"one of {', '.join(known)}"
    return Form(words, lambda value: value in known, misspelt=lambda name, where: unknown(kind, name, known, where))


#: The form of an image's shape.
SHAPE = Form("[channels, height, width]", lambda value: isinstance(value, list) and len(value) == 3, whole(1))


def read(kind: type[Kind], value: Any, where: str) -> Kind:
    """Return JSON as the dataclass ``kind``, with the dataclasses in it; keys that it does not have are left out.

    The type of a field is its form, or ``Annotated[X, form]`` where the type does not say enough. A field with a
    default may be absent.

    :raises DataError: the value is not of its form; the message begins with ``where``.
    """
    return check(value, kind, where)


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


def check(value: Any, form: Any, where: str) -> Any:
    """Return a ``value``, as read from JSON, of the ``form``; refuse another one. Messages begin with ``where``.

    A form is a type (``Any``; ``float``: whole numbers too, but no truth values; ``list[X]``, ``dict[str, X]``,
    ``X | None``, a dataclass), a :class:`Form`, or a mapping of keys to forms: a key that ends in ``?`` may be absent,
    other keys of the value are left out.

    :raises DataError: naming the key as in ``evaluation.every``, the value, and what is wanted.
    """
    alternatives = _forms(form)
    fitting = next((each for each in alternatives if each.fits(value)), None)
    if fitting is None:
        raise DataError(_refusal(value, alternatives, where))
    if fitting.keys is not None:
        made = {}
        for name, part in fitting.keys.items():
            key = name.removesuffix("?")
            if key in value:
                made[key] = check(value[key], part, _inside(where, key))
            elif key == name:
                raise DataError(absent("key", key, value, where))
        return fitting.make(**made)
    if fitting.inside is None:
        return value
    if isinstance(value, list):
        return [check(each, fitting.inside, f"{where}[{place}]") for place, each in enumerate(value)]
    return {key: check(each, fitting.inside, _inside(where, key)) for key, each in value.items()}


def _forms(form: Any) -> list[Form]:
    """Return the alternatives that a form is declared as."""
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        return [alternative for each in arguments for alternative in _forms(each)]
    if origin is typing.Annotated:
        return _forms(arguments[1])
    if origin in (list, dict):
        return [replace(TYPES[origin], inside=arguments[-1])]
    if isinstance(form, dict):
        return [replace(TYPES[dict], keys=form)]
    if isinstance(form, Form):
        return [form]
    return [_of_dataclass(form) if is_dataclass(form) else TYPES[form]]


@cache
def _of_dataclass(kind: type) -> Form:
    hints = typing.get_type_hints(kind, include_extras=True)
    optional = {field.name: "?" if _default(field) is not MISSING else "" for field in fields(kind)}
    return replace(TYPES[dict], keys={name + mark: hints[name] for name, mark in optional.items()}, make=kind)


def _refusal(value: Any, alternatives: list[Form], where: str) -> str:
    misspelt = next((each.misspelt for each in alternatives if each.misspelt), None)
    if misspelt and isinstance(value, str):
        return misspelt(value, where)
    return f"{where}: {shown(value)} is not {' or '.join(each.words for each in alternatives)}"


def _inside(where: str, key: str) -> str:
    """Return the place of ``key``: behind a colon in a file, behind a point in another key."""
    place, _, inner = where.rpartition(": ")
    return f"{place}: {inner}.{key}" if place else f"{where}: {key}"
