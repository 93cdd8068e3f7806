"""FlatFed's messages for what a document refuses: file, key, value, allowed values, nearest match."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Union

from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo

from flatfed.errors import missing_message, shortened_json, unknown

#: Types of our own errors.
ABSENT, MISTAKE, TWICE, EVEN = "absent", "mistake", "twice", "even"

#: Type of a value -> the tag of its alternative in a union.
TAGS = {str: "text", dict: "mapping", list: "list", bool: "flag", int: "number", float: "number"}

#: Type of a value or of an error -> words.
WORDS = {
    **dict.fromkeys(("mapping", "dict_type", "model_type", dict), "a mapping"),
    **dict.fromkeys(("list", "list_type", list), "a list"),
    **dict.fromkeys(("text", "string_type", str), "a text"),
    **dict.fromkeys(("number", "float_type", float, int), "a number"),
    **dict.fromkeys(("flag", "bool_type", bool), "true or false"),
    **{"int_type": "a whole number", type(None): "nothing (null)"},
}

#: Type of an error -> words for its bound.
BOUNDS = {
    "greater_than_equal": "at least {ge:.10g}",
    "less_than_equal": "at most {le:.10g}",
    "greater_than": "greater than {gt:.10g}",
    "less_than": "less than {lt:.10g}",
    "string_too_short": "a text of at least {min_length}",
    "string_too_long": "a text of at most {max_length} characters",
    "too_short": "{what} of at least {min_length}",
    "too_long": "{what} of at most {max_length}",
    EVEN: "an odd number",
}

#: Relevance of errors: a typo causes an unknown and a missing key, and hides the keys of another kind.
RANKS = {"extra_forbidden": 0, "missing": 2, ABSENT: 2, MISTAKE: 3}

UNIONS = (Union, types.UnionType)

Key = str | int


def message(errors: Sequence[Any], kind: Any, where: str, under: Sequence[str]) -> str:
    """Return the message for the most relevant of pydantic's ``errors`` of type ``kind``, or for all missing keys."""
    error = min(errors, key=lambda error: RANKS.get(error["type"], 1))
    kind_of_error, value, context = error["type"], error["input"], error.get("ctx", {})
    keys, place, description = _walk(kind, error["loc"])
    _, above, _ = _walk(kind, error["loc"][:-1])
    at = [*under, *keys]
    if kind_of_error == "missing" and above.model_config["extra"] != "forbid":
        return missing_message("key", at[-1], value, _location(where, at[:-1]))  # unknown keys may be misspelt ones
    if RANKS.get(kind_of_error) == 2:
        return _missing_keys(errors, kind, where, under)
    location, shown, allowed = _location(where, at), shortened_json(value), f"; {description}" if description else ""
    match kind_of_error:
        case "extra_forbidden":
            return unknown("key", at[-1], above.model_fields, _location(where, at[:-1]))
        case "literal_error":
            return unknown("value", value, typing.get_args(place), location)
        case "twice":
            return f"{location}: {shortened_json(context['item'])} is given twice"
        case "mistake":
            for key in context["at"]:
                value = value[key]
            location, shown = _location(where, at + context["at"]), shortened_json(value)
            allowed = f"; {context['meaning']}"
        case name if name in WORDS or name.startswith("union_tag"):
            tags = [name] if name in WORDS else [tag for part in typing.get_args(place) for tag in _tags(part)]
            expected = " or ".join(WORDS[tag] for tag in tags)
            return f"{location}: {shown} is {WORDS[type(value)]}; expected {expected}{allowed}"
        case name if name in BOUNDS:
            allowed = f"; expected {BOUNDS[name].format(what=WORDS[type(value)], **context)}{allowed}"
    return f"{location}: {shown} is not allowed{allowed}"


def _missing_keys(errors: Iterable[Any], kind: Any, where: str, under: Sequence[str]) -> str:
    meanings = {}
    for error in errors:
        if RANKS.get(error["type"]) == 2:
            context = error.get("ctx", {"at": (), "keys": ()})
            for path in [(*context["at"], key) for key in context["keys"]] or [()]:
                keys, _, meaning = _walk(kind, (*error["loc"], *path))
                meanings[*under, *keys] = meaning
    if len(meanings) == 1:
        (((*at, key), meaning),) = meanings.items()
        return f"{_location(where, at)}: key {key!r} is missing; {meaning}"
    listing = "; ".join(f"{_path(path)!r}, {meaning}" for path, meaning in meanings.items())
    return f"{where}: {len(meanings)} keys are missing: {listing}"


def _walk(kind: Any, loc: Sequence[Key]) -> tuple[list[Key], Any, str]:
    """Return the keys of pydantic's ``loc`` in a value of type ``kind``, the type there, and its description."""
    keys: list[Key] = []
    (place, description), above = _bare(kind, ""), None
    for part in loc:
        if part == "[key]":
            keys.pop()
            return keys, *_bare(typing.get_args(above)[0], "")
        if typing.get_origin(place) in UNIONS:
            tagged = {tag: alternative for alternative in typing.get_args(place) for tag in _tags(alternative)}
            place, description = _bare(tagged.get(part, tagged.get("mapping")), description)
            if part in tagged:
                continue
        above, origin, arguments = place, typing.get_origin(place), typing.get_args(place)
        keys.append(part)
        if isinstance(place, type) and issubclass(place, BaseModel):
            fields = {field.alias or name: field for name, field in place.model_fields.items()}
            field = fields.get(part)
            place, description = (None, "") if field is None else _bare(field.annotation, field.description or "")
        elif origin in (list, dict):
            place, description = _bare(arguments[-1], "")
    return keys, place, description


def _bare(kind: Any, description: str) -> tuple[Any, str]:
    """Return a type without annotations, and the ``description`` or that of its annotation or class."""
    while typing.get_origin(kind) is Annotated:
        notes = (note.description for note in reversed(kind.__metadata__) if isinstance(note, FieldInfo))
        description = description or next(filter(None, notes), "")
        kind = kind.__origin__
    if typing.get_origin(kind) in UNIONS and not any(map(_tags, typing.get_args(kind))):
        (kind, *_) = (part for part in typing.get_args(kind) if part is not type(None))  # a value or null
        return _bare(kind, description)
    of_yaml = isinstance(kind, type) and issubclass(kind, BaseModel) and kind.model_config["extra"] == "forbid"
    if not description and of_yaml and "__doc__" in vars(kind):
        words = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
        description = words[:1].lower() + words[1:]
    return kind, description


def _tags(kind: Any) -> list[str]:
    return [note.tag for note in getattr(kind, "__metadata__", ()) if isinstance(note, Tag)]


def _location(where: str, keys: Iterable[Key]) -> str:
    """Return file and keys; ``where`` may end with keys, too."""
    path = _path(keys)
    return f"{where}{'.' if ': ' in where else ': '}{path}" if path else where


def _path(keys: Iterable[Key]) -> str:
    """Return keys as text, such as ``columns[2].splits``."""
    path = ""
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
    return path
