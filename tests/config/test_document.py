"""Typed JSON: valid values pass unchanged; others are refused with key, value and type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from flatfed.config.document import JsonDocument
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


def test_valid_values_are_written_as_they_were_and_unknown_keys_and_defaults_left_out():
    for change in (
        {},
        {"clip": None, "share": 1, "any": [None], "on": False, "another name": "x"},
        {"clip": 0.5, "share": 0.25, "versions": {"engine": 1, "model": "0a1b"}, "columns": [{"id": "a", "part": "c"}]},
    ):
        content = File.of_json({**WHOLE, **change}, "x.json").as_json()
        assert repr(sorted(content.items())) == repr(sorted({**WHOLE, **change}.items())), "1 is not 1.0"
    assert File.of_json({**WHOLE, "more": "x", "on": None, "versions": {}}, "x.json").as_json() == WHOLE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 0}, "rounds: 0 is not allowed"),
        ({"rounds": 2.0}, "rounds: 2.0 is a number; expected a whole number"),
        ({"rounds": True}, "rounds: true"),
        ({"clip": "1"}, 'clip: "1" is a text'),
        ({"clip": float("nan")}, "clip: NaN"),
        ({"clip": 10**400}, "clip: 1000"),
        ({"share": None}, "share: null"),
        ({"kind": "rign"}, "kind: unknown value 'rign'; did you mean 'ring'? known: grid, ring"),
        ({"runs": "x"}, 'runs: "x" is a text; expected a list'),
        ({"runs": ["x", None]}, "runs[1]: null"),
        ({"columns": []}, "columns: []"),
        ({"columns": [{"di": "b"}]}, "columns[0]: key 'id' is missing; is it named 'di'?"),
        ({"columns": [{"id": "a", "part": 1}]}, "columns[0].part: 1"),
        ({"versions": {"engine": 1.5}}, "versions.engine: 1.5"),
        ({"on": 1}, "on: 1 is a whole number; expected true or false"),
        ({"another name": 1}, "another name: 1"),
        *(({key: ...}, f"key '{key}' is missing; ") for key in WHOLE),
    ],
)
def test_other_values_are_named(change, words):
    content = {key: value for key, value in {**WHOLE, **change}.items() if value is not ...}
    with pytest.raises(DataError) as caught:
        File.of_json(content, "x.json")
    assert str(caught.value).startswith(f"x.json: {words}") and "\n" not in str(caught.value)


def test_a_file_that_is_no_mapping_is_refused():
    for value in (None, [], "x", 3):
        with pytest.raises(DataError, match=r"^x\.json: .*; expected a mapping$"):
            File.of_json(value, "x.json")
