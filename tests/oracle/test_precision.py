"""``precision: bfloat16``: layers compute in it, weights and state stay float32."""

from __future__ import annotations

import json

import pytest
import torch
from harness import description, simulation, write_problem
from tape import Tape

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.recording import Recording
from flatfed.engine.train import train


def gradients(folder, precision: str, executor: str) -> torch.Tensor:
    """Return the difference (parameters,) that a first round makes, in ``precision``."""
    run = simulation(folder, description("fedavg", precision=precision, clip_norm=None), executor)
    assert run.server["w"].dtype is (torch.float64 if precision == "float64" else torch.float32)
    before = run.server["w"][0].clone()
    run.advance()
    return (run.server["w"][0] - before).double()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_layers_round_to_eight_bits_and_nothing_else_does(tmp_path, executor):
    """A round's change is off by what a mantissa of eight bits loses: more than float32's, some percent at most."""
    exact = gradients(tmp_path, "float64", executor)

    def off(precision: str) -> float:
        return float((gradients(tmp_path, precision, executor) - exact).norm() / exact.norm())

    assert off("float32") < 1e-5
    assert 1e-4 < off("bfloat16") < 0.1


def test_recorded_steps_in_bfloat16(tmp_path):
    spec = description("fedsam", precision="bfloat16", rounds=2)
    plain, taped = simulation(tmp_path, spec, "graph"), simulation(tmp_path, spec, "graph")
    taped.local.recording = Recording(Tape())
    for run in (plain, taped):
        run.advance()
        run.advance()
    assert torch.equal(plain.server["w"], taped.server["w"])


def test_evaluation_is_in_float32(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("fedavg", precision="bfloat16"))
    run.advance()
    other = simulation(tmp_path, description("fedavg", precision="float32"))
    assert run.evaluate(run.server["w"][0]) == other.evaluate(run.server["w"][0])


def test_it_is_written_down(tmp_path):
    data, dealt = write_problem(tmp_path)
    train(description("scaffold", precision="bfloat16"), data, dealt, tmp_path / "run", device="cpu")
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["precision"] == "bfloat16" == record["description"]["precision"]
