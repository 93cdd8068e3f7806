"""Forms of JSON: declared types that :func:`read` and :func:`check` compare with JSON values."""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

from flatfed.errors import DataError, missing_message, shortened_json, unknown

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Form:
    """The values for which ``fits`` is true; ``words`` describe them.

    ``inside``: form of items or values; ``keys``: key -> form; ``make`` creates the value from its keys;
    ``misspelt``: (text, location) -> message.
    """

    words: str
    fits: Callable[[Any], bool]
    inside: Any = None
    keys: dict[str, Any] | None = None
    make: Callable[..., Any] = dict
    misspelt: Callable[[str, str], str] | None = None


#: Type -> form of its values. In JSON, true and false are not integers.
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
    """Return the form of integers from ``least``."""
    return Form(f"a whole number from {least} up", lambda value: TYPES[int].fits(value) and value >= least)


def above(low: float, most: float = math.inf) -> Form:
    limit = f" and at most {most:g}" if most < math.inf else ""
    return Form(f"a number above {low:g}{limit}", lambda value: TYPES[float].fits(value) and low < value <= most)


def some(form: Any) -> Form:
    return Form("a list of at least one", lambda value: isinstance(value, list) and bool(value), form)


def named(kind: str, names: tuple[str, ...]) -> Form:
    words = f"one of {', '.join(names)}"
    return Form(words, lambda value: value in names, misspelt=lambda name, where: unknown(kind, name, names, where))


#: The form of an image's shape.
SHAPE = Form("[channels, height, width]", lambda value: isinstance(value, list) and len(value) == 3, whole(1))


def read(kind: type[Kind], value: Any, where: str) -> Kind:
    """Return the JSON ``value`` as the dataclass ``kind``; DataError as :func:`check`.

    A field's form is its type, or ``form`` in ``Annotated[X, form]``. A field with a default may be absent.
    """
    return check(value, kind, where)


def reader(kind: type[Kind]) -> Callable[[Any, str], Kind]:
    return partial(read, kind)


def plain(value: Any) -> Any:
    """Return a dataclass as JSON for :func:`read`, without fields that equal their default."""
    if is_dataclass(value):
        contents = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: plain(content) for field, content in contents if content != _default(field)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def check(value: Any, form: Any, where: str) -> Any:
    """Return the JSON ``value`` converted to ``form``.

    A form is a type, a :class:`Form`, or a mapping key -> form, where ``key?`` is optional. Unknown keys are ignored.

    :raises DataError: the first wrong key, with ``where``, its value and form.
    """
    alternatives = _forms(form)
    match = next((alternative for alternative in alternatives if alternative.fits(value)), None)
    if match is None:
        raise DataError(_refusal(value, alternatives, where))
    if match.keys is not None:
        made = {}
        for name, part in match.keys.items():
            key = name.removesuffix("?")
            if key in value:
                made[key] = check(value[key], part, _inside(where, key))
            elif key == name:
                raise DataError(missing_message("key", key, value, where))
        return match.make(**made)
    if match.inside is None:
        return value
    if isinstance(value, list):
        return [check(item, match.inside, f"{where}[{index}]") for index, item in enumerate(value)]
    return {key: check(item, match.inside, _inside(where, key)) for key, item in value.items()}


def _forms(form: Any) -> list[Form]:
    origin, arguments = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        return [alternative for argument in arguments for alternative in _forms(argument)]
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
    misspelt = next((alternative.misspelt for alternative in alternatives if alternative.misspelt), None)
    if misspelt and isinstance(value, str):
        return misspelt(value, where)
    return f"{where}: {shortened_json(value)} is not {' or '.join(alternative.words for alternative in alternatives)}"


def _inside(where: str, key: str) -> str:
    """Return the location of ``key``: "file: key" or "file: outer.key"."""
    file, _, inner = where.rpartition(": ")
    return f"{file}: {inner}.{key}" if file else f"{where}: {key}"
