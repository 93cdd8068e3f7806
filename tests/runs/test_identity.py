"""Which run a record is of: what decides its numbers is compared."""

from __future__ import annotations

import pytest

import made
from flatfed.errors import DataError
from flatfed.runs import identity

UPDATE = {"name": "fedavg", "params": {"server_learning_rate": 1.0}}
DEAL = {"dataset": "d", "classes": 10, "scheme": "shards", "clients": 5, "shards_per_client": 2, "sampler": "keyed"}
WHOLE = {
    **{**made.SETTINGS, "clip_norm": None, "learning_rate": 0.1},
    **{"update": UPDATE, "partition": {**DEAL, "assignment": "permutation"}},
}
EVALUATION = WHOLE["evaluation"]


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint_every": 9, "format": 2},
        {"evaluation": {**EVALUATION, "batch_size": 99}},
        {"executor": {"cpu": "sequential", "cuda": "graph"}},
        {"emulate_bfloat16": True},
        {"rows": 5, "state": "file"},
    ],
    ids=["how it is trained", "images at a time", "executor", "what a CPU may imitate", "memory"],
)
def test_what_decides_no_number_makes_no_other_run(change):
    one, other = made.config(WHOLE), made.config({**WHOLE, **change})
    assert identity.deciding_differences(other, one) == identity.deciding_differences(one, other) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": 0.2}, "learning_rate is 0.2, here 0.1"),
        ({"clip_norm": 1.0}, "clip_norm is 1.0, here null"),
        ({"evaluation": {**EVALUATION, "every": 2}}, "evaluation.every is 2, here 1"),
        ({"update": {"name": "fedavg", "params": {}}}, "update.params.server_learning_rate is null, here 1.0"),
        ({"update": {"name": "fedavg", "params": {"mode": ["x"]}}}, 'update.params.mode is ["x"], here null'),
        ({"partition": {**DEAL, "assignment": "different_classes"}}, 'partition.assignment is "different_classes"'),
        ({"topology": {"graph": "ring"}}, 'topology is {"graph": "ring"}, here null'),
        ({"unknown": 3}, "unknown is 3, here null"),
    ],
)
def test_what_decides_it_is_named(tmp_path, change, said):
    other = {**WHOLE, **change}
    texts = identity.deciding_differences(made.config(other), made.config(WHOLE))
    assert any(text.startswith(said) for text in texts)
    folder = made.run(tmp_path / "p/s/fedavg/seed1", {"round": [1]}, settings=other)
    with pytest.raises(DataError, match=r"seed1/run\.json: not the requested run: ") as problem:
        made.requested(folder, WHOLE).read_record()
    assert said in str(problem.value)
