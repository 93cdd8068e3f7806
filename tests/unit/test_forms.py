"""The forms of JSON: what is of them passes, what is not is refused by its key, its value and what is wanted."""

from typing import Any

import pytest

from flatfed.errors import DataError
from flatfed.forms import above, check, named, some, whole

FORM = {
    "name": str,
    "rounds": whole(1),
    "clip": float | None,
    "share?": above(0, most=1),
    "kind": named("kind", ("ring", "grid")),
    "runs": list[str],
    "columns": some({"id": str, "part?": str | None}),
    "any?": Any,
    "on?": bool,
}
WHOLE = {"name": "x", "rounds": 3, "clip": 1, "kind": "ring", "runs": [], "columns": [{"id": "a"}]}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"clip": None},
        {"clip": 0.5},
        {"share": 1},
        {"share": 0.25},
        {"more": "of no interest"},
        {"any": [None]},
        {"on": False},
        {"columns": [{"id": "a", "part": None}, {"id": "b", "part": "c"}]},
    ],
)
def test_what_is_of_the_form_passes(change):
    check({**WHOLE, **change}, FORM, "x.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "x.json: name: 3 is not a text"),
        ({"rounds": 0}, "x.json: rounds: 0 is not a whole number from 1 up"),
        ({"rounds": 2.0}, "x.json: rounds: 2.0 is not a whole number from 1 up"),
        ({"rounds": True}, "x.json: rounds: true is not a whole number from 1 up"),
        ({"clip": "1"}, 'x.json: clip: "1" is not a finite number or null'),
        ({"clip": float("nan")}, "x.json: clip: NaN is not a finite number or null"),
        ({"clip": True}, "x.json: clip: true is not a finite number or null"),
        ({"share": 0}, "x.json: share: 0 is not a number above 0 and at most 1"),
        ({"share": None}, "x.json: share: null is not a number above 0 and at most 1"),
        ({"kind": "rign"}, "x.json: kind: unknown kind 'rign'; did you mean 'ring'? known: grid, ring"),
        ({"kind": ["ring"]}, 'x.json: kind: ["ring"] is not one of ring, grid'),
        ({"runs": "x"}, 'x.json: runs: "x" is not a list'),
        ({"runs": ["x", None]}, "x.json: runs[1]: null is not a text"),
        ({"columns": []}, "x.json: columns: [] is not a list of at least one"),
        ({"columns": [{"di": "b"}]}, "x.json: columns[0]: key 'id' is missing; is it named 'di'? present: di"),
        ({"columns": [{"id": "a", "part": 1}]}, "x.json: columns[0].part: 1 is not a text or null"),
        ({"on": 1}, "x.json: on: 1 is not true or false"),
    ],
)
def test_what_is_not_is_named(change, words):
    with pytest.raises(DataError) as caught:
        check({**WHOLE, **change}, FORM, "x.json")
    assert str(caught.value) == words


@pytest.mark.parametrize("key", WHOLE)
def test_a_key_that_is_missing_is_named(key):
    with pytest.raises(DataError, match=rf"^x\.json: key '{key}' is missing; "):
        check({name: value for name, value in WHOLE.items() if name != key}, FORM, "x.json")


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_mapping_is_refused(value):
    with pytest.raises(DataError, match=r"^x\.json: .* is not a mapping$"):
        check(value, FORM, "x.json")
