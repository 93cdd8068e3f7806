"""Typed JSON and YAML: valid values pass unchanged; all others are refused with key, value and type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from flatfed.config.document import JsonDocument
from flatfed.config.figure import FIGURE
from flatfed.config.split import SPLITS
from flatfed.config.values import Count, NotEmpty, Number, Share, Version
from flatfed.errors import ConfigError, DataError


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
        ({"clip": "1"}, 'clip: "1" is a text'),
        ({"clip": float("nan")}, "clip: NaN"),
        ({"share": None}, "share: null"),
        ({"kind": "rign"}, "kind: unknown value 'rign'; did you mean 'ring'? known: grid, ring"),
        ({"runs": "x"}, 'runs: "x" is a text; expected a list'),
        ({"columns": [{"ids": "b"}]}, "columns[0]: key 'id' is missing; is it named 'ids'?"),
        ({"versions": {"engine": 1.5}}, "versions.engine: 1.5"),
        ({"on": 1}, "on: 1 is a whole number; expected true or false"),
        ({"runs": ...}, "key 'runs' is missing; "),
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


SPLIT = {"scheme": "dirichlet", "alpha": 0.1, "clients": 4, "participation": 1}
SURFACE = {"kind": "surface", "title": "x"}
ID = "an id has at most 64 letters, digits and . _ - only, begins with a letter or digit"
KINDS = "iid, dirichlet, grouped_dirichlet, pathological, shards, domain or central"


@pytest.mark.parametrize(
    ("kind", "content", "lines"),
    [
        (
            SPLITS,
            {
                "a": {**SPLIT, "participation": 2, "clients": "4", "shards_per_client": 2, "topologie": "ring"},
                "b": {"sheme": "iid"},
                "c d": {**SPLIT, "scheme": "dirichlett"},
            },
            [
                "a.participation: 2 is not allowed; expected at most 1; share of the clients active in a round, above 0"
                " and at most 1",
                'a.clients: "4" is a text; expected a whole number; number of clients',
                "a.shards_per_client: 2 is not allowed; it is for scheme shards",
                "a: unknown key 'topologie'; did you mean 'topology'? known: alpha, clients, label, neighbours, "
                "participation, replacement, sampling, scheme, topology",
                f"b: key 'scheme' is missing; is it named 'sheme'? present: sheme; expected {KINDS}",
                f'"c d" is not allowed; {ID}',
                "c d.scheme: unknown value 'dirichlett'; did you mean 'dirichlet'? known: central, dirichlet, domain, "
                "grouped_dirichlet, iid, pathological, shards",
            ],
        ),
        (
            FIGURE,
            {**SURFACE, "splits": ["a"], "seeds": [1]},
            [
                "key 'panels' is missing; the panels, in the paper's order",
                'splits: ["a"] is not allowed; it is for kind curves, bars or partition',
                "seeds: [1] is not allowed; it is for kind curves, sweep, bars or eigenvalues",
            ],
        ),
    ],
)
def test_all_mistakes_of_a_document_are_named(kind, content, lines):
    with pytest.raises(ConfigError) as caught:
        kind.check(content, "x.yaml")
    assert sorted(str(caught.value).splitlines()) == sorted(f"x.yaml: {line}" for line in lines)


def test_a_valid_document_of_a_kind_has_the_keys_of_this_kind_alone():
    split = SPLITS.check({"a": SPLIT}, "x.yaml")["a"]
    assert split.as_written() == SPLIT and split.headers == ["Dirichlet 0.1"] and split.replacement
    assert not hasattr(split, "shards_per_client")
