"""``precision: bfloat16``: layers compute in it, weights and state stay float32."""

import pytest
import torch

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job.machine import check_bfloat16
from flatfed.errors import ConfigError, FlatFedError
from flatfed.runs import host
from flatfed.runs.run_config import RunConfig
from harness import advanced, description, job, needs, simulation, with_gradients
from samples import sampled


@pytest.mark.parametrize("executor", EXECUTORS)
def test_layers_round_to_eight_bits(tmp_path, executor):
    """A round's change is off by what a mantissa of eight bits loses: more than float32's, some percent at most."""

    def change(precision: str) -> torch.Tensor:
        run = simulation(tmp_path, description("fedavg", precision=precision, clip_norm=None), executor)
        assert run.server["w"].dtype is (torch.float64 if precision == "float64" else torch.float32)
        before = run.server["w"][0].clone()
        run.advance()
        return (run.server["w"][0] - before).double()

    exact, single, half = (change(name) for name in ("float64", "float32", "bfloat16"))
    assert (single - exact).norm() < 1e-5 * exact.norm()
    assert 1e-4 * exact.norm() < (half - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize("name", sampled(["fedavg", "scaffold", "feddyn", "fedsmoo", "mofedsam"]))
@pytest.mark.parametrize("executor", sampled(EXECUTORS, ["stacked"]))
def test_nothing_but_gradients_is_rounded(tmp_path, name, executor):
    """Given the gradients of bfloat16, a run in float64 makes the same models and state, but for float32's digits."""
    coarse = simulation(tmp_path, description(name, precision="bfloat16"), executor)
    exact = simulation(tmp_path, description(name), executor)
    kept = []

    def keep(w, batch):
        kept.append(coarse.executor(w, batch))
        return tuple(values.clone() for values in kept[-1])

    with_gradients(coarse, keep)
    with_gradients(exact, lambda w, batch: tuple(v.double() for v in kept.pop(0)))
    advanced(coarse, 2)
    advanced(exact, 2)
    assert not kept
    ours, theirs = ({**run.server, **run.state.store} for run in (coarse, exact))
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert value.dtype is torch.float32
        assert (value.double() - theirs[key]).norm() <= 1e-5 * theirs[key].norm(), key


def test_evaluation_is_in_float32(tmp_path):
    run, other = (simulation(tmp_path, description("fedavg", precision=name)) for name in ("bfloat16", "float32"))
    run.advance()
    assert run.evaluate(run.server["w"][0]) == other.evaluate(run.server["w"][0])


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        (("avx2", "avx512f"), r"has no units for it \(amx_bf16, avx512_bf16, bf16\).*Train in float32"),
        ((), "does not report whether it has units for it"),
    ],
)
def test_a_cpu_without_units_refuses_it_and_says_what_it_would_cost(tmp_path, monkeypatch, instructions, message):
    monkeypatch.setattr(host, "instructions", lambda: instructions)
    with pytest.raises(FlatFedError, match=message):
        job(tmp_path, "fedavg", "run", precision="bfloat16")
    assert not (tmp_path / "run").exists()


def test_a_gpu_a_cpu_with_units_and_other_precisions_are_accepted(monkeypatch):
    low, full = (RunConfig(**description("fedavg", precision=name)) for name in ("bfloat16", "float32"))
    for config, device, units in ((low, "cuda", ()), (low, "cpu", ("avx512f", "avx512_bf16")), (full, "cpu", ())):
        monkeypatch.setattr(host, "instructions", lambda units=units: units)
        check_bfloat16(config, torch.device(device))


def test_a_perturbation_below_the_rounding_of_the_weights_is_refused(tmp_path):
    """In bfloat16 w + e is rounded by about 0.2 % of w: a much shorter e is lost in it."""
    message = "FedSAM: its perturbation has the norm 0.001, which is lost where bfloat16 rounds .*allowed: .*float32"
    with pytest.raises(ConfigError, match=message):
        simulation(tmp_path, description("fedsam", {"rho": 0.001}, precision="bfloat16"))
    for rho, allowed in ((0.0, "bfloat16"), (0.3, "bfloat16"), (0.001, "float32")):
        simulation(tmp_path, description("fedsam", {"rho": rho}, precision=allowed))


def test_models_are_averaged_without_tf32(tmp_path, monkeypatch):
    """Training may use TF32 on a GPU; where models are mixed or aggregated it is off, and on again afterwards."""
    matmul, seen = torch.backends.cuda.matmul, []
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        for name, hook in (("fedavg", "aggregate"), ("dfedavg", "mix")):
            run = simulation(tmp_path, description(name, **needs(name)))
            call = getattr(run.algorithm, hook)
            noted = lambda *arguments, call=call: (seen.append(matmul.fp32_precision), call(*arguments))[1]  # noqa: E731
            monkeypatch.setattr(run.algorithm, hook, noted)
            run.advance()
        assert seen == ["ieee", "ieee"] and matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
