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
        {"clip": None},
        {"clip": 0.5},
        {"share": 1},
        {"share": 0.25},
        {"any": [None]},
        {"on": False},
        {"versions": {"engine": 1, "model": "0a1b"}},
        {"columns": [{"id": "a"}, {"id": "b", "part": "c"}]},
        {"another name": "x"},
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
        ({"name": 3}, "x.json: name: 3 is a number; expected a text"),
        ({"rounds": 0}, "x.json: rounds: 0 is not allowed; expected at least 1"),
        ({"rounds": 2.0}, "x.json: rounds: 2.0 is a number; expected a whole number"),
        ({"rounds": True}, "x.json: rounds: true is true or false; expected a whole number"),
        ({"clip": "1"}, 'x.json: clip: "1" is a text; expected a number'),
        ({"clip": float("nan")}, "x.json: clip: NaN is not allowed"),
        ({"clip": 10**400}, "x.json: clip: 1000"),
        ({"clip": True}, "x.json: clip: true is true or false; expected a number"),
        ({"share": 0}, "x.json: share: 0 is not allowed; expected greater than 0"),
        ({"share": None}, "x.json: share: null is nothing (null); expected a number"),
        ({"kind": "rign"}, "x.json: kind: unknown value 'rign'; did you mean 'ring'? known: grid, ring"),
        ({"kind": ["ring"]}, "x.json: kind: unknown value ['ring']; did you mean 'ring'? known: grid, ring"),
        ({"runs": "x"}, 'x.json: runs: "x" is a text; expected a list'),
        ({"runs": ["x", None]}, "x.json: runs[1]: null is nothing (null); expected a text"),
        ({"columns": []}, "x.json: columns: [] is not allowed; expected a list of at least 1"),
        ({"columns": [{"di": "b"}]}, "x.json: columns[0]: key 'id' is missing; is it named 'di'? present: di"),
        ({"columns": [{"id": "a", "part": 1}]}, "x.json: columns[0].part: 1 is a number; expected a text"),
        ({"versions": {"engine": 1.5}}, "x.json: versions.engine: 1.5 is a number; expected a whole number"),
        (
            {"versions": {"engine": None}},
            "x.json: versions.engine: null is nothing (null); expected a number or a text",
        ),
        ({"on": 1}, "x.json: on: 1 is a number; expected true or false"),
        ({"another name": 1}, "x.json: another name: 1 is a number; expected a text"),
    ],
)
def test_what_is_not_is_named(change, words):
    with pytest.raises(DataError) as caught:
        File.of_json({**WHOLE, **change}, "x.json")
    assert str(caught.value) == words or (words.endswith("1000") and str(caught.value).startswith(words))


@pytest.mark.parametrize("key", WHOLE)
def test_a_key_that_is_missing_is_named(key):
    with pytest.raises(DataError, match=rf"^x\.json: key '{key}' is missing; "):
        File.of_json({name: value for name, value in WHOLE.items() if name != key}, "x.json")


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_mapping_is_refused(value):
    with pytest.raises(DataError, match=r"^x\.json: .*; expected a mapping$"):
        File.of_json(value, "x.json")
