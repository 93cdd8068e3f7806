"""Validation against workflow/schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from jsonschema.validators import extend
from referencing import Registry, Resource

from flatfed.errors import ConfigError, shortened_json, unknown
from flatfed.strict_yaml import read

#: The schemas of this copy of FlatFed, not of the checked project.
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


def _is_int(checker: Any, value: Any) -> bool:
    """Unlike JSON Schema, refuse 40.0."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_int))


@lru_cache
def _validator(name: str, key: str | None = None) -> Any:
    if key:
        return _Validator(_validator(name).schema["properties"][key])
    return _Validator(_read(f"{name}.schema.yaml").contents, registry=Registry(retrieve=_read))


def _read(file: str) -> Resource[Any]:
    return Resource.from_contents(read(FOLDER / file, f"workflow/schemas/{file}"))


def validate(value: Any, schema: str, where: str) -> None:
    """Check ``value``, the content of the file ``where``, against a schema; ConfigError as :func:`refuse`."""
    refuse(mistakes(value, schema), where)


def validate_property(value: Any, schema: str, key: str, where: str) -> None:
    """Check ``value`` against the property ``key`` of ``schema``; ConfigError as :func:`refuse`."""
    refuse(_validator(schema, key).iter_errors(value), f"{where}.{key}")


def defaults(schema: str) -> dict[str, Any]:
    """Return the defaults of the properties of ``schema``."""
    return {key: rule["default"] for key, rule in _validator(schema).schema["properties"].items() if "default" in rule}


def mistakes(value: Any, schema: str, under: Sequence[str] = ()) -> list[ValidationError]:
    """Return the violations of ``schema`` by ``value``, which is ``under`` these keys of its file."""
    errors = list(_validator(schema).iter_errors(value))
    for error in errors:
        error.path.extendleft(reversed(under))
    return errors


def refuse(errors: Iterable[ValidationError], where: str) -> None:
    """Raise a ConfigError for the most relevant of ``errors``, or all missing keys."""
    # Unknown keys first: a typo causes both an unknown and a missing key.
    order = {"additionalProperties": 0, "required": 2, "dependentRequired": 2, "not": 3}
    if errors := sorted(errors, key=lambda error: order.get(error.validator, 1)):
        missing = [error for error in errors if order.get(error.validator) == 2]
        raise ConfigError(_missing_keys(missing, where) if errors[0] in missing else _message(errors[0], where))


def _missing_keys(errors: Iterable[ValidationError], where: str) -> str:
    missing: dict[tuple[Any, ...], str] = {}
    for error in errors:
        required = error.validator_value
        if error.validator == "dependentRequired":
            required = [key for present, needed in required.items() if present in error.instance for key in needed]
        for key in (key for key in required if key not in error.instance):
            missing[(*error.absolute_path, key)] = error.schema["properties"][key]["description"]
    if len(missing) == 1:
        (((*at, key), meaning),) = missing.items()
        return f"{_location(where, at)}: key {key!r} is missing; {meaning}"
    listing = "; ".join(f"{_path(path)!r}, {meaning}" for path, meaning in missing.items())
    return f"{where}: {len(missing)} keys are missing: {listing}"


def _message(error: ValidationError, where: str) -> str:
    while error.context:
        # Report the best alternative of an anyOf.
        fits = [(len(part.absolute_path), part.validator != "type", relevance(part)) for part in error.context]
        error = error.context[fits.index(max(fits))]
    location = _location(where, error.absolute_path)
    value, expected = error.instance, error.validator_value
    about = error.schema.get("description", "")
    allowed = f"; {about}" if about else ""
    match error.validator:
        case "additionalProperties":
            properties = list(error.schema.get("properties", ()))
            extra = sorted(str(key) for key in value if key not in properties)
            return unknown("key", extra[0], properties, location)
        case "required":
            return _missing_keys([error], where)
        case "enum":
            return unknown("value", value, expected, location)
        case "type":
            types = [expected] if isinstance(expected, str) else expected
            names = " or ".join(WORDS[name] for name in types)
            return f"{location}: {shortened_json(value)} is {_kind(value)}; expected {names}{allowed}"
        case "uniqueItems":
            twice = next(item for item in value if value.count(item) > 1)
            return f"{location}: {shortened_json(twice)} is given twice"
        case bound if bound in BOUNDS:
            expected = BOUNDS[bound].format(expected)
            return f"{location}: {shortened_json(value)} is not allowed; expected {expected}{allowed}"
        case _:
            return f"{location}: {shortened_json(value)} is not allowed{allowed}"


def _location(where: str, parts: Iterable[str | int]) -> str:
    path = _path(parts)
    return f"{where}: {path}" if path else where


def _path(parts: Iterable[str | int]) -> str:
    """Return a JSON path as text, such as ``columns[2].splits``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _kind(value: Any) -> str:
    return next(words for name, words in WORDS.items() if _Validator.TYPE_CHECKER.is_type(value, name))
