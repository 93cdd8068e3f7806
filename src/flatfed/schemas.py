"""The JSON Schemas of workflow/schemas, and their errors in words: file, key, value, what is allowed, nearest match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from jsonschema.validators import extend
from referencing import Registry, Resource

from flatfed.errors import ConfigError, shown, unknown
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

#: Validator keyword -> words for its bound.
BOUNDS = {
    **{"minimum": "at least {}", "maximum": "at most {}"},
    **{"exclusiveMinimum": "greater than {}", "exclusiveMaximum": "less than {}"},
    **{"minItems": "a list of at least {}", "maxItems": "a list of at most {}"},
    **{"minLength": "a text of at least {}", "maxLength": "a text of at most {} characters"},
    "minProperties": "a mapping of at least {}",
}


def _whole(checker: Any, value: Any) -> bool:
    """Return whether ``value`` is an int. JSON Schema takes 40.0 for an integer, which range() would not take."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _whole))


@lru_cache
def _validator(name: str, key: str | None = None) -> Any:
    """Return the validator of a schema, or of its property ``key``."""
    if key:
        return _Validator(_validator(name).schema["properties"][key])
    return _Validator(_read(f"{name}.schema.yaml").contents, registry=Registry(retrieve=_read))


def _read(file: str) -> Resource[Any]:
    """Return the schema in a ``file`` of the folder, as others refer to it."""
    return Resource.from_contents(read(FOLDER / file, f"workflow/schemas/{file}"))


def validate(value: Any, schema: str, where: str) -> None:
    """Check ``value``, the content of the file called ``where``, against ``workflow/schemas/<schema>.schema.yaml``.

    :raises ConfigError: the mistake nearest to what was meant; of keys that are missing, all of them.
    """
    refuse(mistakes(value, schema), where)


def validate_property(value: Any, schema: str, key: str, where: str) -> None:
    """Check ``value`` against what ``schema`` says of its property ``key``; ConfigError as :func:`validate`."""
    refuse(_validator(schema, key).iter_errors(value), f"{where}.{key}")


def defaults(schema: str) -> dict[str, Any]:
    """Return the values that ``schema`` has for properties that are left out."""
    return {key: of["default"] for key, of in _validator(schema).schema["properties"].items() if "default" in of}


def mistakes(value: Any, schema: str, under: Sequence[str] = ()) -> list[ValidationError]:
    """Return where ``value``, which stands ``under`` these keys of its file, is not as ``schema`` has it."""
    found = list(_validator(schema).iter_errors(value))
    for error in found:
        error.path.extendleft(reversed(under))
    return found


def refuse(errors: Iterable[ValidationError], where: str) -> None:
    """Raise a ConfigError for the first of the ``errors``, or for all keys that are missing.

    Of an unknown key and a missing one, the unknown key is told: a misspelt key is both. A key that another kind of
    entry has is told last.
    """
    order = {"additionalProperties": 0, "required": 2, "dependentRequired": 2, "not": 3}
    if errors := sorted(errors, key=lambda found: order.get(found.validator, 1)):
        lacking = [error for error in errors if order.get(error.validator) == 2]
        raise ConfigError(_lacking(lacking, where) if errors[0] in lacking else _words(errors[0], where))


def _lacking(errors: Iterable[ValidationError], where: str) -> str:
    """Return the message for the keys that are missing in ``errors``."""
    lacking: dict[tuple[Any, ...], str] = {}
    for error in errors:
        wanted = error.validator_value
        if error.validator == "dependentRequired":
            wanted = [key for present, needed in wanted.items() if present in error.instance for key in needed]
        for key in (key for key in wanted if key not in error.instance):
            lacking[(*error.absolute_path, key)] = error.schema["properties"][key]["description"]
    if len(lacking) == 1:
        (((*at, key), meaning),) = lacking.items()
        return f"{_place(where, at)}: key {key!r} is missing; {meaning}"
    each = "; ".join(f"{_path(path)!r}, {meaning}" for path, meaning in lacking.items())
    return f"{where}: {len(lacking)} keys are missing: {each}"


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
            return unknown("key", extra[0], known, place)
        case "required":
            return _lacking([error], where)
        case "enum":
            return unknown("value", value, wanted, place)
        case "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            names = " or ".join(WORDS[name] for name in types)
            return f"{place}: {shown(value)} is {_kind(value)}; {names} is wanted{allowed}"
        case "uniqueItems":
            twice = next(item for item in value if value.count(item) > 1)
            return f"{place}: {shown(twice)} is given twice"
        case bound if bound in BOUNDS:
            return f"{place}: {shown(value)} is not allowed; {BOUNDS[bound].format(wanted)} is wanted{allowed}"
        case _:
            return f"{place}: {shown(value)} is not allowed{allowed}"


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
