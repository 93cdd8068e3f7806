"""``precision: bfloat16``: layers compute in it, weights and state stay float32."""

from __future__ import annotations

import json

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatfed.engine import precision
from flatfed.engine.executors import EXECUTORS, Batch
from flatfed.engine.job.train import train
from flatfed.engine.speed.recording import Recorded
from flatfed.errors import ConfigError, FlatFedError
from flatfed.runs import host
from flatfed.runs.run_config import RunConfig
from harness import description, simulation, write_problem
from tape import Tape


def gradients(folder, precision: str, executor: str) -> torch.Tensor:
    """Return the difference (parameters,) that a first round makes, in ``precision``."""
    run = simulation(folder, description("fedavg", precision=precision, clip_norm=None), executor)
    assert run.server["w"].dtype is (torch.float64 if precision == "float64" else torch.float32)
    before = run.server["w"][0].clone()
    run.advance()
    return (run.server["w"][0] - before).double()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_layers_round_to_eight_bits(tmp_path, executor):
    """A round's change is off by what a mantissa of eight bits loses: more than float32's, some percent at most."""
    exact = gradients(tmp_path, "float64", executor)

    def off(precision: str) -> float:
        return float((gradients(tmp_path, precision, executor) - exact).norm() / exact.norm())

    assert off("float32") < 1e-5
    assert 1e-4 < off("bfloat16") < 0.1


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "feddyn", "fedsmoo", "mofedsam"])
@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
def test_nothing_but_gradients_is_rounded(tmp_path, name, executor):
    """Given the gradients of bfloat16, a run in float64 makes the same models and state, but for float32's digits."""
    coarse = simulation(tmp_path, description(name, precision="bfloat16"), executor)
    exact = simulation(tmp_path, description(name), executor)
    step, kept = coarse.local_update.plain.losses_and_gradients, []

    def keep(w: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        kept.append(step(w, batch))
        return kept[-1][0].clone(), kept[-1][1].clone()

    coarse.local_update.plain.losses_and_gradients = keep
    exact.local_update.plain.losses_and_gradients = lambda w, batch: tuple(v.double() for v in kept.pop(0))
    for run in (coarse, exact):
        run.advance()
        run.advance()
    assert not kept
    for ours, theirs in ((coarse.server, exact.server), (coarse.state.store, exact.state.store)):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert value.dtype is torch.float32
            assert (value.double() - theirs[key]).norm() <= 1e-5 * theirs[key].norm(), key


class Casts(TorchDispatchMode):
    """Counts the numbers that are cast to bfloat16."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        if function.overloadpacket is torch.ops.aten._to_copy and found.dtype is torch.bfloat16:
            self.numbers += found.numel()
        return found


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_weights_are_cast_once_a_step(tmp_path, executor):
    run = simulation(tmp_path, description("fedavg", precision="bfloat16"), executor)
    step, seen = run.local_update.losses_and_gradients, []

    def counted(w: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        with Casts() as casts:
            found = step(w, batch)
        rows = max(len(w), 2 if executor == "stacked" else 1)  # a stacked row that is alone trains beside a copy
        logits = 3 * batch.labels[0].numel()  # whose gradient goes back from the loss, which is float32
        seen.append((casts.numbers, rows * (w[0].numel() + batch.images[0].numel() + logits)))
        return found

    run.local_update.losses_and_gradients = counted
    run.advance()
    assert seen
    assert all(numbers == once for numbers, once in seen), seen


def test_recorded_steps_in_bfloat16(tmp_path):
    spec = description("fedsam", precision="bfloat16", rounds=2)
    plain, taped = simulation(tmp_path, spec, "products"), simulation(tmp_path, spec, "products")
    taped.local_update = Recorded(taped.local_update.plain, Tape())
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
    train(RunConfig(**spec), data, dealt, folder / "run", device="cpu", stop_after=rounds)
    return folder / "run"


def test_a_cpu_without_units_refuses_it_and_says_what_it_would_cost(tmp_path, monkeypatch):
    with pytest.raises(FlatFedError) as refused:
        stopped(tmp_path, monkeypatch, ("avx2", "avx512f"))
    said = str(refused.value)
    assert "has no units for it (amx_bf16, avx512_bf16, bf16)" in said and "emulate_bfloat16: true" in said
    assert not (tmp_path / "run").exists()
    with pytest.raises(FlatFedError, match="does not report whether it has units for it"):
        stopped(tmp_path, monkeypatch, ())
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
    assert "bfloat16 was multiplied by avx512_bf16, here by amx_bf16 and avx512_bf16" in said
    assert "from the start" in said and (tmp_path / "run/run.json").exists()


GPU, CPU = ["a GPU"], ["avx512_bf16"]


@pytest.mark.parametrize(("first", "then"), [(GPU, CPU), (CPU, GPU), ([], CPU)])
def test_nor_is_one_begun_on_a_gpu_or_imitated(tmp_path, monkeypatch, capsys, first, then):
    for rounds, units in ((1, first), (2, first), (3, then)):
        monkeypatch.setattr(precision, "bfloat16_units", lambda description, device, found=units: found)
        stopped(tmp_path, monkeypatch, rounds=rounds, emulate_bfloat16=True)
        said = capsys.readouterr().err
        assert ("from round 1 of its checkpoint" in said) == (rounds == 2), said
    words = {str(GPU): "a GPU", str(CPU): "avx512_bf16", "[]": "a CPU without units for it"}
    assert f"bfloat16 was multiplied by {words[str(first)]}, here by {words[str(then)]}" in said


def test_units_of_a_gpu_of_a_cpu_and_of_other_precisions(monkeypatch):
    monkeypatch.setattr(host, "instructions", lambda: UNITS)
    low, full = (RunConfig(**description("fedavg", precision=name)) for name in ("bfloat16", "float32"))
    for place, units in (("cuda", ["a GPU"]), ("cpu", ["avx512_bf16"])):
        assert precision.bfloat16_units(low, torch.device(place)) == units
        assert precision.bfloat16_units(full, torch.device(place)) is None


def test_keys_that_change_no_number_may_change_under_way(tmp_path, monkeypatch, capsys):
    stopped(tmp_path, monkeypatch, rounds=1, checkpoint_every=1)
    stopped(tmp_path, monkeypatch, rounds=2, checkpoint_every=2, emulate_bfloat16=True)
    assert "from round 1 of its checkpoint" in capsys.readouterr().err
    stopped(tmp_path, monkeypatch, rounds=3, clip_norm=5.0)
    assert "is of another run: clip_norm is" in capsys.readouterr().err


def test_a_checkpoint_of_another_precision_is_named_as_such(tmp_path, monkeypatch, capsys):
    stopped(tmp_path, monkeypatch)
    stopped(tmp_path, monkeypatch, precision="float32")
    said = capsys.readouterr().err
    assert 'is set aside as .checkpoint.stale: it is of another run: precision is "bfloat16", here "float32"' in said


def test_a_perturbation_below_the_rounding_of_the_weights_is_refused(tmp_path):
    """In bfloat16 w + e is rounded by about 0.2 % of w: a much shorter e is lost in it."""
    message = "FedSAM: its perturbation has the norm 0.001, which is lost where bfloat16 rounds .*allowed: .*float32"
    with pytest.raises(ConfigError, match=message):
        simulation(tmp_path, description("fedsam", {"rho": 0.001}, precision="bfloat16"))
    for rho, allowed in ((0.0, "bfloat16"), (0.3, "bfloat16"), (0.001, "float32")):
        simulation(tmp_path, description("fedsam", {"rho": rho}, precision=allowed))
