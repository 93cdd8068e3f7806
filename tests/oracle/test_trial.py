"""``executor: auto``: measured before the first round, written down, kept when a run goes on."""

from __future__ import annotations

import json

import pytest
import torch
from harness import description, needs, simulation, write_problem

from flatfed.engine.executors import Stacked
from flatfed.engine.job.checkpoint import Checkpoint
from flatfed.engine.job.inputs import Digests
from flatfed.engine.job.train import train
from flatfed.engine.speed import fastest as trials
from flatfed.engine.speed.fastest import ON, trial
from flatfed.errors import ConfigError

AUTO = {"cpu": "auto", "cuda": "auto"}


@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam", "fedlesam_s"])
def test_a_trial_changes_nothing_of_the_run(tmp_path, name):
    spec = description(name, **needs(name))
    tried, plain = simulation(tmp_path, spec, "sequential"), simulation(tmp_path, spec, "sequential")
    found = trial(tried)
    assert set(found["seconds"]) == set(ON["cpu"]) and not found["failed"]
    assert found["picked"] == min(found["seconds"], key=found["seconds"].get) == tried.executor.name
    trials.set_executor(plain, found["picked"])
    for _ in range(3):
        assert tried.advance() and plain.advance()
    assert torch.equal(tried.server["w"], plain.server["w"])
    assert all(torch.equal(tried.state.store[key], plain.state.store[key]) for key in plain.state.store)


def test_seeds_that_train_together_go_by_one_trial(tmp_path, monkeypatch):
    found = trial(simulation(tmp_path, description("fedavg"), "sequential"))
    monkeypatch.setattr(trials, "_measured", lambda *_: pytest.fail("measured again"))
    for picked in ON["cpu"]:
        other = simulation(tmp_path, description("fedavg", seed=4), "sequential")
        assert trial(other, {**found, "picked": picked})["picked"] == other.executor.name == picked


def test_it_is_written_to_run_json_and_kept_when_the_run_goes_on(tmp_path, monkeypatch):
    data, dealt = write_problem(tmp_path)
    spec = description("scaffold", executor=AUTO)
    first = simulation(tmp_path, spec, "sequential")
    first.trial = {**trial(first), "picked": "stacked"}
    trials.set_executor(first, "stacked")
    first.advance()
    made_of = []

    def keep(self, *arguments, **keywords):
        made_of.append(self.digests)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoint, "write", keep)
        train(spec, data, dealt, tmp_path / "run", device="cpu")
    (tmp_path / "run").mkdir(exist_ok=True)
    Checkpoint(tmp_path / "run", Digests(**made_of[0])).write(first, {"lines": [], "sessions": []})
    monkeypatch.setattr("flatfed.engine.job.train.trial", lambda run: pytest.fail("measured again"))
    train(spec, data, dealt, tmp_path / "run", device="cpu")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["executor"] == "stacked" and record["executor_trial"] == first.trial


def test_executors_that_cannot_run_the_model_are_named(tmp_path, monkeypatch):
    def refuse(self, w, batch):
        raise RuntimeError("vmap: no batching rule")

    monkeypatch.setattr(Stacked, "__call__", refuse)
    found = trial(simulation(tmp_path, description("fedavg"), "sequential"))
    assert found["picked"] == "sequential" and list(found["failed"]) == ["stacked"]
    assert "vmap: no batching rule" in found["failed"]["stacked"]
    monkeypatch.setitem(trials.ON, "cpu", ("stacked",))
    with pytest.raises(ConfigError, match=r"none of stacked can run this model here \(stacked: .*vmap: no batching"):
        trial(simulation(tmp_path, description("fedavg"), "sequential"))
