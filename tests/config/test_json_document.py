"""Typed JSON: what is of the type passes, what is not is refused by its key, its value and what is wanted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from flatfed.config.json_document import JsonDocument
from flatfed.config.values import Count, NotEmpty, Number, Share, Version
from flatfed.errors import DataError


class Column(JsonDocument):
    id: str
    part: str | None = None


class File(JsonDocument):
    name: str
    rounds: Count
    clip: Number | None
    share: Share = None
    kind: Literal["ring", "grid"]
    runs: list[str]
    columns: Annotated[list[Column], NotEmpty]
    versions: dict[str, Version] = Field(default_factory=dict)
    any: Any = None
    on: bool | None = None
    named: str | None = Field(None, alias="another name")


WHOLE = {"name": "x", "rounds": 3, "clip": 1, "kind": "ring", "runs": [], "columns": [{"id": "a"}]}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"clip": None, "share": 1, "any": [None], "on": False, "another name": "x"},
        {"clip": 0.5, "share": 0.25, "versions": {"engine": 1, "model": "0a1b"}},
        {"columns": [{"id": "a"}, {"id": "b", "part": "c"}]},
    ],
)
def test_what_is_of_the_type_passes_and_is_written_as_it_was(change):
    content = File.of_json({**WHOLE, **change}, "x.json").as_json()
    assert content == {**WHOLE, **change}
    assert type(content["clip"]) is type(({**WHOLE, **change})["clip"]), "1 is not 1.0"


def test_unknown_keys_are_ignored_and_defaults_are_left_out():
    content = {**WHOLE, "more": "of no interest", "on": None, "versions": {}}
    assert File.of_json(content, "x.json").as_json() == WHOLE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "name: 3"),
        ({"rounds": 0}, "rounds: 0 is not allowed"),
        ({"rounds": 2.0}, "rounds: 2.0 is a number; expected a whole number"),
        ({"rounds": True}, "rounds: true"),
        ({"clip": "1"}, 'clip: "1" is a text'),
        ({"clip": float("nan")}, "clip: NaN"),
        ({"clip": 10**400}, "clip: 1000"),
        ({"clip": True}, "clip: true"),
        ({"share": 0}, "share: 0 is not allowed"),
        ({"share": None}, "share: null"),
        ({"kind": "rign"}, "kind: unknown value 'rign'; did you mean 'ring'? known: grid, ring"),
        ({"kind": ["ring"]}, "kind: unknown value ['ring']"),
        ({"runs": "x"}, 'runs: "x" is a text; expected a list'),
        ({"runs": ["x", None]}, "runs[1]: null"),
        ({"columns": []}, "columns: []"),
        ({"columns": [{"di": "b"}]}, "columns[0]: key 'id' is missing; is it named 'di'?"),
        ({"columns": [{"id": "a", "part": 1}]}, "columns[0].part: 1"),
        ({"versions": {"engine": 1.5}}, "versions.engine: 1.5"),
        ({"versions": {"engine": None}}, "versions.engine: null"),
        ({"on": 1}, "on: 1 is a number; expected true or false"),
        ({"another name": 1}, "another name: 1"),
    ],
)
def test_what_is_not_is_named(change, words):
    with pytest.raises(DataError) as caught:
        File.of_json({**WHOLE, **change}, "x.json")
    assert str(caught.value).startswith(f"x.json: {words}") and "\n" not in str(caught.value)


@pytest.mark.parametrize("key", WHOLE)
def test_a_key_that_is_missing_is_named(key):
    with pytest.raises(DataError, match=rf"^x\.json: key '{key}' is missing; "):
        File.of_json({name: value for name, value in WHOLE.items() if name != key}, "x.json")


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_mapping_is_refused(value):
    with pytest.raises(DataError, match=r"^x\.json: .*; expected a mapping$"):
        File.of_json(value, "x.json")
