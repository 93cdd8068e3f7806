"""FlatFed's messages for what a document refuses: file, key, value, allowed values, nearest match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from flatfed.errors import missing_message, shortened_json, unknown

#: Types of our own errors: ``meaning`` in the context of a mistake is what is allowed, ``item`` is given twice.
MISTAKE, TWICE = "mistake", "twice"

#: Type of a value -> its type in JSON schemas, also the tag of its alternative in a union.
TYPES = {
    str: "string",
    dict: "object",
    list: "array",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}

#: Type in JSON schemas -> words.
WORDS = {
    "string": "a text",
    "object": "a mapping",
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "nothing (null)",
}

#: Type of an error, without string_ -> words for its bound.
BOUNDS = {
    "greater_than_equal": "at least {ge:.10g}",
    "less_than_equal": "at most {le:.10g}",
    "greater_than": "greater than {gt:.10g}",
    "less_than": "less than {lt:.10g}",
    "too_short": "a length of at least {min_length}",
    "too_long": "a length of at most {max_length}",
    "finite_number": "a finite number",
}

Key = str | int
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where an error is: key path, value, JSON schema (empty if unknown), and the place above."""

    keys: list[Key]
    value: Any
    node: Schema
    above: Place | None = None


def message(error: Mapping[str, Any], schema: Schema, content: Any, where: str) -> str:
    """Return the message for one of pydantic's errors in ``content``, whose type has the JSON ``schema``."""
    kind, context, place = error["type"], error.get("ctx", {}), _place(schema, content, error["loc"])
    location, shown = _location(where, place.keys), shortened_json(place.value)
    description = f"; {place.node['description']}" if place.node.get("description") else ""
    if kind == "missing":
        key, mapping = place.keys[-1], _location(where, place.above.keys)
        if not description:
            return missing_message("key", key, place.above.value, mapping)
        return f"{mapping}: key {key!r} is missing{description}"
    if kind == "extra_forbidden":
        if kinds := _kinds_with(schema, content, error["loc"]):
            return f"{location}: {shown} is not allowed; it is for {kinds}"
        return unknown("key", place.keys[-1], place.above.node["properties"], _location(where, place.above.keys))
    if kind.startswith("union_tag") and "discriminator" in place.node:
        selector, kinds = _selector(place.node), [*_alternatives(place.node, schema)]
        if selector not in place.value:
            return f"{missing_message('key', selector, place.value, location)}; expected {_either(kinds)}"
        return unknown("value", place.value[selector], kinds, _location(where, [*place.keys, selector])) + description
    if kind == "literal_error":
        return unknown("value", place.value, place.node.get("enum") or [place.node["const"]], location)
    if kind == TWICE:
        return f"{location}: {shortened_json(context['item'])} is given twice"
    if kind == MISTAKE:
        return f"{location}: {shown} is not allowed; {context['meaning']}"
    if bound := BOUNDS.get(kind.removeprefix("string_")):
        return f"{location}: {shown} is not allowed; expected {bound.format(**context)}{description}"
    if kind.startswith("union_tag") or kind.endswith("_type"):
        types = _alternatives(place.node, schema) if "union" in kind else [place.node.get("type", "object")]
        expected = _either([WORDS[name] for name in types])
        actual = WORDS.get(TYPES.get(type(place.value)), type(place.value).__name__)
        return f"{location}: {shown} is {actual}; expected {expected}{description}"
    return f"{location}: {shown} is not allowed{description}"


def _place(schema: Schema, content: Any, loc: Sequence[Key]) -> Place:
    """Return the place at pydantic's ``loc``, which has the tags of unions between its keys."""
    place = Place([], content, {**_resolved(schema, schema), "description": None})
    for part in loc:
        if part == "[key]":  # an error of the key before it
            names = {"type": "string", **place.above.node.get("propertyNames", {})}
            return Place(place.keys[:-1], place.keys[-1], names)
        if alternative := _alternatives(place.node, schema).get(part):
            node = {"description": place.node.get("description"), **alternative}
            place = Place(place.keys, place.value, node, place.above)
            continue
        try:
            value = place.value[part]
        except (LookupError, TypeError):  # a missing key
            value = None
        place = Place([*place.keys, part], value, _resolved(_below(place.node, part), schema), above=place)
    return place


def _kinds_with(schema: Schema, content: Any, loc: Sequence[Key]) -> str:
    """Return the kinds, in words, that have a key which is unknown to the kind in ``loc``; "" for none."""
    for index, tag in enumerate(loc):
        union = _place(schema, content, loc[:index]).node
        if "discriminator" in union and tag in (alternatives := _alternatives(union, schema)):
            others = {kind: (*loc[:index], kind, *loc[index + 1 :]) for kind in alternatives}
            if kinds := [kind for kind, other in others.items() if _place(schema, content, other).node]:
                return f"{_selector(union)} {_either(kinds)}"
    return ""


def _below(node: Schema, part: Key) -> Schema:
    """Return the schema of the values at a key or index ``part`` of the values of ``node``."""
    if "items" in node:
        return node["items"]
    others = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    return node.get("properties", {}).get(part) or next((other for other in others if isinstance(other, dict)), {})


def _alternatives(node: Schema, schema: Schema) -> dict[str, Schema]:
    """Return the alternatives of a union by their tags: values of its discriminator, else types."""
    alternatives = [_resolved(alternative, schema) for alternative in node.get("oneOf", ())]
    if "discriminator" in node:
        return {alternative["properties"][_selector(node)]["const"]: alternative for alternative in alternatives}
    return {alternative["type"]: alternative for alternative in alternatives}


def _selector(union: Schema) -> str:
    return union["discriminator"]["propertyName"]


def _resolved(node: Schema, schema: Schema) -> Schema:
    """Return the schema that ``node`` refers to, or allows next to null, with the description of ``node``."""
    if "anyOf" in node:
        target = node["anyOf"][0]
    elif "$ref" in node:
        target = schema["$defs"][node["$ref"].rpartition("/")[2]]
    else:
        return node
    return {**_resolved(target, schema), "description": node.get("description")}


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _location(where: str, keys: Iterable[Key]) -> str:
    """Return file and keys; ``where`` may end with keys, too."""
    path = ""
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
    return f"{where}{'.' if ': ' in where else ': '}{path}" if path else where
