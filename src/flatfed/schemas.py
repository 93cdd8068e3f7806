"""The JSON Schemas of workflow/schemas, and their errors in words: file, key, value, what is allowed, nearest match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from jsonschema.validators import extend

from flatfed.errors import ConfigError, shown, unknown
from flatfed.retired import replacement
from flatfed.strict_yaml import read

#: The folder of the schemas: they belong to this copy of FlatFed, whatever configuration is checked with them.
FOLDER = Path(__file__).resolve().parents[2] / "workflow" / "schemas"

#: JSON type -> words for it.
WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "nothing (null)",
}

#: Validator keyword -> words before its bound.
BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "greater than",
    "exclusiveMaximum": "less than",
    **dict.fromkeys(("minItems", "minProperties", "minLength"), "a length of at least"),
    **dict.fromkeys(("maxItems", "maxLength"), "a length of at most"),
}


@dataclass(frozen=True)
class Missing:
    """A key that is not there: the keys and indices that lead to where it should be, and what it means."""

    at: tuple[str | int, ...]
    key: str
    meaning: str


def _whole(checker: Any, value: Any) -> bool:
    """Return whether ``value`` is an int. JSON Schema takes 40.0 for an integer, which range() would not take."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _whole))


@lru_cache
def _validator(name: str, key: str | None = None) -> Any:
    """Return the validator of a schema, or of its property ``key``."""
    if key:
        return _Validator(_validator(name).schema["properties"][key])
    return _Validator(read(FOLDER / f"{name}.schema.yaml", f"workflow/schemas/{name}.schema.yaml"))


def validate(value: Any, schema: str, where: str) -> None:
    """Check ``value``, the content of the file called ``where``, against ``workflow/schemas/<schema>.schema.yaml``.

    :raises ConfigError: the mistake nearest to what was meant; of keys that are missing, all of them.
    """
    refuse(mistakes(value, schema), where)


def validate_property(value: Any, schema: str, key: str, where: str) -> None:
    """Check ``value`` against what ``schema`` says of its property ``key``; ConfigError as :func:`validate`."""
    refuse(_validator(schema, key).iter_errors(value), f"{where}.{key}")


def mistakes(value: Any, schema: str, under: Sequence[str] = ()) -> list[ValidationError]:
    """Return where ``value``, which stands ``under`` these keys of its file, is not as ``schema`` has it."""
    found = list(_validator(schema).iter_errors(value))
    for error in found:
        error.path.extendleft(reversed(under))
    return found


def refuse(errors: Iterable[ValidationError], where: str, missing: Iterable[Missing] = ()) -> None:
    """Raise a ConfigError for the first of the ``errors``, or for all keys that are missing, ``missing`` too.

    Of an unknown key and a missing one, the unknown key is told: a misspelt key is both.
    """
    order = {"additionalProperties": 0, "required": 2, "dependentRequired": 2}
    errors = sorted(errors, key=lambda found: order.get(found.validator, 1))
    if errors and errors[0].validator not in ("required", "dependentRequired"):
        raise ConfigError(_words(errors[0], where))
    lacking = list(dict.fromkeys([*(key for error in errors for key in _missing(error)), *missing]))
    if lacking:
        raise ConfigError(_lacking(lacking, errors, where))


def meaning(schema: str, *keys: str) -> str:
    """Return the description of the property of ``schema`` that ``keys`` lead to: * is any key, [] a list's item."""
    found = _validator(schema).schema
    for key in keys:
        if key == "[]":
            found = found["items"].get("anyOf", [found["items"]])[-1]
        else:
            found = found["additionalProperties"] if key == "*" else found["properties"][key]
    return found["description"]


def _missing(error: ValidationError) -> list[Missing]:
    """Return the keys whose absence is the ``error``."""
    wanted = error.validator_value
    if error.validator == "dependentRequired":
        wanted = [key for present, needed in wanted.items() if present in error.instance for key in needed]
    absent = [key for key in wanted if key not in error.instance]
    at = tuple(error.absolute_path)
    return [Missing(at, key, error.schema["properties"][key]["description"]) for key in absent]


def _lacking(missing: list[Missing], errors: Iterable[ValidationError], where: str) -> str:
    """Return the message for ``missing`` keys."""
    if len(missing) > 1:
        each = "; ".join(f"{_path((*lacked.at, lacked.key))!r}, {lacked.meaning}" for lacked in missing)
        return f"{where}: {len(missing)} keys are missing{_meaningless(errors)}: {each}"
    (lacked,) = missing
    return f"{_place(where, lacked.at)}: key {lacked.key!r} is missing{_meaningless(errors)}; {lacked.meaning}"


def _meaningless(errors: Iterable[ValidationError]) -> str:
    """Return words for keys without a meaning beside a missing one, where any key is allowed; "" without such keys."""
    for error in errors:
        others = [shown(key) for key in error.instance if key not in error.schema["properties"]]
        if others:
            return f" ({', '.join(others)} is there, which means nothing)"
    return ""


def _words(error: ValidationError, where: str) -> str:
    """Return the message for one violation of a schema."""
    while error.context:
        # Of the alternatives of an anyOf, the one that fits best is the one that was meant.
        fits = [(len(found.absolute_path), found.validator != "type", relevance(found)) for found in error.context]
        error = error.context[fits.index(max(fits))]
    place = _place(where, error.absolute_path)
    value, wanted = error.instance, error.validator_value
    about = error.schema.get("description", "")
    allowed = f"; {about}" if about else ""
    match error.validator:
        case "additionalProperties":
            known = list(error.schema.get("properties", ()))
            extra = sorted(str(key) for key in value if key not in known)
            return _unless_retired("key", extra[0], known, place)
        case "required":
            return _lacking(_missing(error), [error], where)
        case "enum":
            return _unless_retired("value", value, wanted, place)
        case "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            names = " or ".join(WORDS[name] for name in types)
            return f"{place}: {shown(value)} is {_kind(value)}; {names} is wanted{allowed}"
        case "uniqueItems":
            twice = next(item for item in value if value.count(item) > 1)
            return f"{place}: {shown(twice)} is given twice"
        case bound if bound in BOUNDS:
            return f"{place}: {shown(value)} is not allowed; {BOUNDS[bound]} {wanted} is wanted{allowed}"
        case _:
            return f"{place}: {shown(value)} is not allowed{allowed}"


def _unless_retired(kind: str, value: object, known: Iterable[object], place: str) -> str:
    """Return the message for an unknown key or value: its replacement, or the nearest known one."""
    retired = replacement(kind, value)
    return f"{place}: {retired}" if retired else unknown(kind, value, known, place)


def _place(where: str, parts: Iterable[str | int]) -> str:
    """Return the file ``where`` with the place in it that ``parts`` lead to."""
    path = _path(parts)
    return f"{where}: {path}" if path else where


def _path(parts: Iterable[str | int]) -> str:
    """Return the parts of a JSON path as ``preview.algorithms.fedadam`` or ``columns[2].splits``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _kind(value: Any) -> str:
    return next(words for name, words in WORDS.items() if _Validator.TYPE_CHECKER.is_type(value, name))
