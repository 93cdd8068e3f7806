"""What no training can do is refused in its settings, and not found out in the middle of it."""

from __future__ import annotations

import json

import pytest

from flatfed.errors import DataError
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


def test_json_stays_as_it_is():
    """Also a number without a point, and a key that this version does not know."""
    settings = {**ABOUT, **on("validation"), "validation": 0.2, "learning_rate": 1, "unknown": {"key": [1.0]}}
    settings["dataset"] = {**ABOUT["dataset"], "mean": [1], "unknown": 1}
    assert text(RunConfig.of_json(settings, "--run").as_json()) == text(settings)


def test_the_settings_of_published_runs_stay_as_they_are():
    paths = list((ROOT / "results/published").rglob("run*.json"))
    for path in paths:
        settings = json.loads(path.read_text())["description"]
        assert text(RunConfig.of_json(settings, "x").as_json()) == text(settings), path
    assert paths
