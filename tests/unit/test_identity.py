"""Which run a record is of: what decides its numbers is compared, whatever stands there."""

from __future__ import annotations

import pytest

import made
from flatfed.errors import DataError
from flatfed.runs import identity

UPDATE = {"name": "fedavg", "params": {"server_learning_rate": 1.0}}
DEAL = {"dataset": "d", "classes": 10, "scheme": "shards", "clients": 5, "shards_per_client": 2, "sampler": "keyed"}
WHOLE = {
    **{"format": 1, "protocol": "p", "algorithm": "fedavg", "seed": 1, "clip_norm": None, "learning_rate": 0.1},
    **{"update": UPDATE, "partition": {**DEAL, "assignment": "permutation"}, "checkpoint_every": 5},
    "evaluation": {"every": 1, "batch_size": 10},
}


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint_every": 9, "format": 2},
        {"evaluation": {"every": 1, "batch_size": 99}},
        {"executor": {"cpu": "stacked"}, "topology": None},
    ],
    ids=["how it is trained", "images at a time", "null"],
)
def test_what_decides_no_number_makes_no_other_run(change):
    other = {**WHOLE, **change}
    assert identity.deciding_differences(other, WHOLE) == identity.deciding_differences(WHOLE, other) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": 0.2}, "learning_rate is 0.2, here 0.1"),
        ({"clip_norm": 1.0}, "clip_norm is 1.0, here null"),
        ({"evaluation": {"every": 2}}, "evaluation.every is 2, here 1"),
        ({"update": None}, 'update.name is null, here "fedavg"'),
        ({"update": ["fedavg"]}, 'update is ["fedavg"], here null'),
        ({"update": {"name": ["fedavg"]}}, 'update.name is ["fedavg"], here "fedavg"'),
        ({"update": {"name": "fedavg"}}, "update.params.server_learning_rate is null, here 1.0"),
        ({"update": {"name": "fedavg", "params": 3}}, "update.params is 3, here null"),
        ({"partition": {**DEAL, "assignment": "different_classes"}}, 'partition.assignment is "different_classes"'),
        ({"partition": 7}, "partition is 7, here null"),
    ],
)
def test_what_decides_it_is_named_whatever_it_is(tmp_path, change, said):
    other = {**WHOLE, **change}
    assert any(text.startswith(said) for text in identity.deciding_differences(other, WHOLE))
    folder = made.run(tmp_path / "p/s/fedavg/seed1", {"round": [1]}, description=other)
    with pytest.raises(DataError, match=r"seed1/run\.json: not the requested run: ") as problem:
        made.requested(folder, WHOLE).read_record()
    assert said in str(problem.value)


def test_a_partition_of_another_assignment_is_refused():
    then = {**DEAL, "assignment": "permutation", "seed": 3}
    identity.check_partition("p.npz", then, {"partition": {**DEAL, "assignment": "permutation"}, "seed": 3})
    with pytest.raises(DataError, match='assignment is "permutation", the run has "different_classes"'):
        identity.check_partition("p.npz", then, {"partition": {**DEAL, "assignment": "different_classes"}, "seed": 3})


def test_what_a_cpu_may_imitate_decides_no_number():
    assert identity.deciding_differences({**WHOLE, "emulate_bfloat16": True}, WHOLE) == []
