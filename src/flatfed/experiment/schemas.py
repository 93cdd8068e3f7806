"""The JSON Schemas of workflow/schemas, and their errors in words: file, key, value, what is allowed, nearest match."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from jsonschema.validators import extend

from flatfed.errors import ConfigError, unknown
from flatfed.experiment.strict_yaml import read

#: The folder of the schemas: they belong to this copy of FlatFed, whatever configuration is checked with them.
FOLDER = Path(__file__).resolve().parents[3] / "workflow" / "schemas"

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
}


def _whole(checker: Any, value: Any) -> bool:
    """JSON Schema takes 40.0 for an integer; here it would reach range() as a float."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _whole))


@lru_cache
def _validator(name: str) -> Any:
    return _Validator(read(FOLDER / f"{name}.schema.yaml", f"workflow/schemas/{name}.schema.yaml"))


@lru_cache
def _property_validator(name: str, key: str) -> Any:
    return _Validator(_validator(name).schema["properties"][key])


def validate(value: Any, schema: str, where: str) -> None:
    """Check ``value``, the content of the file called ``where``, against ``workflow/schemas/<schema>.schema.yaml``.

    :raises ConfigError: the mistake nearest to what was meant.
    """
    _first_error(_validator(schema), value, where)


def validate_property(value: Any, schema: str, key: str, where: str) -> None:
    """Check ``value`` against what ``schema`` says of its property ``key``; ConfigError as :func:`validate`."""
    _first_error(_property_validator(schema, key), value, f"{where}.{key}")


def _first_error(validator: Any, value: Any, where: str) -> None:
    # A wrong key before a missing one: who misspells a key has both, and the first says so.
    order = {"additionalProperties": 0, "required": 2}
    errors = sorted(validator.iter_errors(value), key=lambda found: order.get(found.validator, 1))
    if errors:
        raise ConfigError(_words(errors[0], where))


def _words(error: ValidationError, where: str) -> str:
    """Return the message for one violation of a schema."""
    while error.context:
        # Of the alternatives of an anyOf, the one that fits best is the one that was meant.
        fits = [(len(found.absolute_path), found.validator != "type", relevance(found)) for found in error.context]
        error = error.context[fits.index(max(fits))]
    path = _path(error.absolute_path)
    place = f"{where}: {path}" if path else where
    value, wanted = error.instance, error.validator_value
    about = error.schema.get("description", "")
    allowed = f"; {about}" if about else ""
    match error.validator:
        case "additionalProperties":
            known = list(error.schema.get("properties", ()))
            extra = sorted(str(key) for key in value if key not in known)
            return unknown("key", extra[0], known, place)
        case "required":
            missing = next(key for key in wanted if key not in value)
            meaning = error.schema["properties"][missing]["description"]
            others = [_shown(key) for key in value if key not in error.schema["properties"]]
            there = f" ({', '.join(others)} is there, which means nothing)" if others else ""
            return f"{place}: key {missing!r} is missing{there}; {meaning}"
        case "enum":
            return unknown("value", value, wanted, place)
        case "const":
            return f"{place}: {_shown(value)} is not allowed; {_shown(wanted)} is wanted{allowed}"
        case "type":
            types = [wanted] if isinstance(wanted, str) else wanted
            names = " or ".join(WORDS[name] for name in types)
            return f"{place}: {_shown(value)} is {_kind(value)}; {names} is wanted{allowed}"
        case "minItems" | "minProperties" | "minLength":
            return f"{place}: {_shown(value)} is too short; at least {wanted} wanted{allowed}"
        case "maxItems" | "maxLength":
            return f"{place}: {_shown(value)} is too long, {len(value)}; at most {wanted} wanted{allowed}"
        case "uniqueItems":
            twice = next(item for item in value if value.count(item) > 1)
            return f"{place}: {_shown(twice)} is given twice"
        case bound if bound in BOUNDS:
            return f"{place}: {_shown(value)} is not allowed; {BOUNDS[bound]} {wanted} is wanted{allowed}"
        case _:
            return f"{place}: {_shown(value)} is not allowed{allowed}"


def _path(parts: Any) -> str:
    """Return the parts of a JSON path as ``preview.algorithms.fedadam`` or ``columns[2].splits``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
    return next((words for kind, words in kinds.items() if isinstance(value, kind)), "a number")
