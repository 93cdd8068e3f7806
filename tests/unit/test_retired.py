"""Values of choices that have another name now: refused where one configures, read where finished runs have them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from flatfed import algorithms, experiment
from flatfed.algorithms import Choice
from flatfed.commands import import_runs, plan_needs, run_record
from flatfed.errors import ConfigError

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results/published/cifar10-cnn/runs/dir0.6-100/fedlesam_d/seed1"

#: All names that were ever retired: (algorithm, parameter, old name) -> what the same rule is called now. A line is put
#: here with every name that is retired, and none is ever taken away: what it meant stands in records of finished runs.
RETIRED = {
    ("fedlesam", "direction", "official_code"): "server_step",
    ("fedlesam", "first", "official_code"): "unperturbed",
    ("fedlesam_d", "direction", "official_code"): "server_step",
    ("fedlesam_d", "first", "official_code"): "unperturbed",
    ("fedlesam_s", "direction", "official_code"): "server_step",
    ("fedlesam_s", "first", "official_code"): "unperturbed",
    ("fedspeed", "average", "paper"): "active_clients",
}


def test_no_name_that_was_retired_is_forgotten():
    declared = {
        (name, parameter, old): now
        for name in algorithms.names()
        for parameter, choice in algorithms.load(name).parameters().items()
        if isinstance(choice, Choice)
        for old, now in choice.retired.items()
    }
    assert declared == RETIRED


@pytest.mark.parametrize(("name", "parameter", "old"), RETIRED)
def test_the_old_name_is_refused_with_the_new_one(name, parameter, old):
    now = RETIRED[name, parameter, old]
    with pytest.raises(ConfigError, match=f"{parameter}: '{old}' is called '{now}' now"):
        algorithms.load(name)(**{parameter: old})
    assert getattr(algorithms.load(name)(**{parameter: now}), parameter) == now


@pytest.mark.parametrize("retired", [{"b": "a"}, {"old": "new"}])
def test_a_retired_name_is_no_option_and_stands_for_one(retired):
    with pytest.raises(ValueError, match="must not be one of the options"):
        Choice("a", ("a", "b"), "what", retired=retired)


def described(update: dict) -> dict:
    return {"rounds": 3, "update": update}


def test_a_record_is_read_in_the_names_of_today():
    old = described({"name": "fedlesam", "params": {"rho": 0.1, "direction": "official_code", "first": "paper"}})
    kept = json.loads(json.dumps(old))
    params = algorithms.today(old)["update"]["params"]
    named = {"rho": 0.1, "direction": "server_step", "first": "paper"}
    assert params == {**named, "unpacking": "paper", "server_learning_rate": 1.0}
    assert old == kept, "the record's own is as it was"
    other = described({"name": "fedsmoo", "params": {"s": "official_code", "unheard_of": "paper", "rho": 1}})
    assert other["update"]["params"].items() <= algorithms.today(other)["update"]["params"].items()
    gone = described({"name": "fedgone", "params": {"direction": "official_code"}})
    assert algorithms.today(gone) == gone


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A run of this configuration that was made when ``first`` was called otherwise, not in its place yet."""
    monkeypatch.chdir(tmp_path)
    run = experiment.load(ROOT).run("paper", "fedsmoo-cifar10~cnn", "dir0.6-100", "fedlesam_d", 1)
    shutil.copytree(PUBLISHED, "made")
    Path("made/model.safetensors").touch()
    assert json.loads(Path("made/run.json").read_text())["description"]["update"]["params"]["first"] == "official_code"
    return run


def test_a_finished_run_with_an_old_name_is_finished(here):
    assert plan_needs.state(here) == "missing"
    shutil.copytree("made", here.path)
    assert plan_needs.state(here) == "finished"


def test_import_writes_the_new_name_and_says_which_it_was(here):
    arrival = import_runs.checked(experiment.load(ROOT), Path("made"))
    assert "without sums" in arrival.warning
    import_runs.move(arrival)
    record = json.loads(Path(here.path, "run.json").read_text())
    assert record["description"] == here.description and record["renamed"] == {"first": "official_code"}
    assert record["completed"] == ["regulariser", "unpacking"], "parameters that there were not when it was made"


def test_a_run_with_an_old_name_can_be_made_again():
    description = run_record.read(PUBLISHED / "run.json").description
    update = description["update"]
    assert algorithms.load(update["name"])(**update["params"]).first == "unperturbed"
