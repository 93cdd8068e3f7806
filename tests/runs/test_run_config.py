"""Settings of runs: what no training can do is refused; the settings that decide the numbers are compared."""

from __future__ import annotations

import json

import pytest

import made
from flatfed.config.protocol import Changes
from flatfed.errors import DataError
from flatfed.plan.protocols import OWN_TRAINING
from flatfed.runs.run_config import RunConfig
from repository import ROOT
from shipped import EXP

ABOUT = EXP.run("preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).config.as_json()
MISSPELT = {key: value for key, value in ABOUT.items() if key != "rounds"} | {"rouns": 3}


def text(settings: dict) -> str:
    return json.dumps(settings, sort_keys=True)


def on(*sets: str) -> dict:
    return {"evaluation": {**ABOUT["evaluation"], "sets": list(sets)}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (MISSPELT, "--run: key 'rounds' is missing; is it named 'rouns'? present: algorithm, augmentation, "),
        ({**ABOUT, **on("test", "client")}, "evaluation.sets[1]: unknown value 'client'; did you mean 'clients'?"),
        ({**ABOUT, **on("validation")}, "evaluation.sets: [\"validation\"] is not allowed; it has 'validation' if, "),
        ({**ABOUT, "validation": 0.2}, "it has 'validation' if, and only if, `validation` is a share"),
        ({**ABOUT, "rounds": 0}, "--run: rounds: 0 is not allowed; expected at least 1"),
        ({**ABOUT, "learning_rate": float("nan")}, "--run: learning_rate: NaN is not allowed"),
        ({**ABOUT, "dataset": {**ABOUT["dataset"], "mean": [1, 2]}}, "mean: [1, 2] is not allowed; 2 numbers for 1 "),
        ([], "--run: [] is a list; expected a mapping"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(settings, message):
    with pytest.raises(DataError) as refused:
        RunConfig.of_json(settings, "--run")
    assert str(refused.value).startswith("--run") and message in str(refused.value)


def test_training_keys_of_protocols_and_algorithms_are_typed_in_runs():
    """An undeclared one would be stored, too, but unchecked (docs/add-a-key.md)."""
    assert {*OWN_TRAINING} <= Changes.model_fields.keys() & RunConfig.model_fields.keys()


def test_the_settings_of_published_runs_stay_as_they_are():
    paths = list((ROOT / "results/published").rglob("run*.json"))
    for path in paths:
        settings = json.loads(path.read_text())["description"]
        assert text(RunConfig.of_json(settings, "x").as_json()) == text(settings), path
    assert paths


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
        {"rows": 5, "state": "file"},
    ],
    ids=["how it is trained", "images at a time", "executor", "memory"],
)
def test_what_decides_no_number_makes_no_other_run(change):
    one, other = made.config(WHOLE), made.config({**WHOLE, **change})
    assert other.deciding_differences(one) == one.deciding_differences(other) == []


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
    texts = made.config(other).deciding_differences(made.config(WHOLE))
    assert any(text.startswith(said) for text in texts)
    folder = made.run(tmp_path / "p/s/fedavg/seed1", {"round": [1]}, settings=other)
    with pytest.raises(DataError, match=r"seed1/run\.json: not the requested run: ") as problem:
        made.requested(folder, WHOLE).read_record()
    assert said in str(problem.value)
