"""``precision: bfloat16``: layers compute in it, weights and state stay float32."""

from __future__ import annotations

import json
import re

import pytest
import torch
from harness import description, simulation, write_problem
from tape import Tape

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job.train import train
from flatfed.engine.speed.recording import Recorded
from flatfed.errors import FlatFedError
from flatfed.runs import host


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
    taped.local = Recorded(taped.local, Tape())
    for run in (plain, taped):
        run.advance()
        run.advance()
    assert torch.equal(plain.server["w"], taped.server["w"])


def test_evaluation_is_in_float32(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("fedavg", precision="bfloat16"))
    run.advance()
    other = simulation(tmp_path, description("fedavg", precision="float32"))
    assert run.evaluate(run.server["w"][0]) == other.evaluate(run.server["w"][0])


def test_it_is_written_down(tmp_path, monkeypatch):
    run = stopped(tmp_path, monkeypatch, rounds=3)
    record = json.loads((run / "run.json").read_text())
    assert record["precision"] == "bfloat16" == record["description"]["precision"]


UNITS = ("avx512f", "avx512_bf16")


def stopped(folder, monkeypatch, instructions=UNITS, rounds=2, **changes):
    """Train ``rounds`` of three on a CPU that has ``instructions``; return the run folder."""
    data, dealt = (folder / "data", folder / "partition.npz") if (folder / "data").exists() else write_problem(folder)
    monkeypatch.setattr(host, "instructions", lambda: instructions)
    spec = description("scaffold", **{"precision": "bfloat16", "rounds": 3, **changes})
    train(spec, data, dealt, folder / "run", device="cpu", stop_after=rounds)
    return folder / "run"


def test_a_cpu_without_units_refuses_it_and_says_what_it_would_cost(tmp_path, monkeypatch):
    with pytest.raises(FlatFedError) as refused:
        stopped(tmp_path, monkeypatch, ("avx2", "avx512f"))
    said = str(refused.value)
    assert "has no units for it (amx_bf16, avx512_bf16, bf16); a product of two matrices takes" in said
    assert float(re.search(r"takes ([\d.]+) times as long", said)[1]) > 0 and "emulate_bfloat16: true" in said
    assert not (tmp_path / "run").exists()
    stopped(tmp_path, monkeypatch, ("avx2",), emulate_bfloat16=True)
    (tmp_path / "32").mkdir()
    stopped(tmp_path / "32", monkeypatch, ("avx2",), precision="float32")


def test_a_run_begun_on_other_units_is_not_gone_on_with(tmp_path, monkeypatch, capsys):
    stopped(tmp_path, monkeypatch, UNITS, 1)
    stopped(tmp_path, monkeypatch, UNITS, 2)
    assert "from round 1 of its checkpoint" in capsys.readouterr().err
    with pytest.raises(FlatFedError, match="has no units"):
        stopped(tmp_path, monkeypatch, ("avx2",), 3)
    assert (tmp_path / "run/.checkpoint").is_dir(), "nothing is lost"
    stopped(tmp_path, monkeypatch, ("amx_bf16", *UNITS), 3)
    said = capsys.readouterr().err
    assert "bfloat16 was multiplied by avx512_bf16, this CPU has amx_bf16 and avx512_bf16" in said
    assert "from the start" in said and (tmp_path / "run/run.json").exists()


def test_a_checkpoint_of_another_precision_is_named_as_such(tmp_path, monkeypatch, capsys):
    stopped(tmp_path, monkeypatch)
    stopped(tmp_path, monkeypatch, precision="float32")
    said = capsys.readouterr().err
    assert 'is set aside as .checkpoint.stale: it is of another run: precision is "bfloat16", here "float32"' in said
