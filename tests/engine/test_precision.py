"""``precision: bfloat16``: layers compute in it, weights and state stay float32."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatfed.engine import precision
from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job.train import train
from flatfed.errors import ConfigError, FlatFedError
from flatfed.runs import host
from flatfed.runs.record import read_finished
from flatfed.runs.run_config import RunConfig
from harness import advanced, description, needs, simulation, write_problem


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


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "feddyn", "fedsmoo", "mofedsam"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_nothing_but_gradients_is_rounded(tmp_path, name, executor):
    """Given the gradients of bfloat16, a run in float64 makes the same models and state, but for float32's digits."""
    coarse = simulation(tmp_path, description(name, precision="bfloat16"), executor)
    exact = simulation(tmp_path, description(name), executor)
    step, kept = coarse.local_update.plain.losses_and_gradients, []

    def keep(w, batch):
        kept.append(step(w, batch))
        return tuple(values.clone() for values in kept[-1])

    coarse.local_update.plain.losses_and_gradients = keep
    exact.local_update.plain.losses_and_gradients = lambda w, batch: tuple(v.double() for v in kept.pop(0))
    advanced(coarse, 2)
    advanced(exact, 2)
    assert not kept
    ours, theirs = ({**run.server, **run.state.store} for run in (coarse, exact))
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert value.dtype is torch.float32
        assert (value.double() - theirs[key]).norm() <= 1e-5 * theirs[key].norm(), key


class Casts(TorchDispatchMode):
    """Counts the numbers that are cast to bfloat16."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if function.overloadpacket is torch.ops.aten._to_copy and result.dtype is torch.bfloat16:
            self.numbers += result.numel()
        return result


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_weights_are_cast_once_a_step(tmp_path, executor):
    run = simulation(tmp_path, description("fedavg", precision="bfloat16"), executor)
    step, seen = run.local_update.losses_and_gradients, []

    def counted(w, batch):
        with Casts() as casts:
            result = step(w, batch)
        rows = max(len(w), 2 if executor == "stacked" else 1)  # a stacked row that is alone trains next to a copy
        logits = 3 * batch.labels[0].numel()  # whose gradient goes back from the loss, which is float32
        seen.append((casts.numbers, rows * (w[0].numel() + batch.images[0].numel() + logits)))
        return result

    run.local_update.losses_and_gradients = counted
    run.advance()
    assert seen and all(numbers == once for numbers, once in seen), seen


def test_evaluation_is_in_float32(tmp_path):
    run, other = (simulation(tmp_path, description("fedavg", precision=name)) for name in ("bfloat16", "float32"))
    run.advance()
    assert run.evaluate(run.server["w"][0]) == other.evaluate(run.server["w"][0])


@pytest.fixture
def train_to(tmp_path, monkeypatch, capsys):
    """Return a function that trains a run of three rounds to a round, on a CPU with ``instructions``; it returns the
    output."""

    def call(rounds, instructions=("avx512f", "avx512_bf16"), **changes) -> str:
        if not (tmp_path / "data").exists():
            write_problem(tmp_path)
        monkeypatch.setattr(host, "instructions", lambda: instructions)
        config = RunConfig(**description("scaffold", **{"precision": "bfloat16", "rounds": 3, **changes}))
        places = tmp_path / "data", tmp_path / "partition.npz", tmp_path / "run"
        train(config, *places, device="cpu", stop_after=rounds)
        return capsys.readouterr().err

    return call


RESUMED = "from round 1 of its checkpoint"


def test_a_cpu_without_units_refuses_it_and_says_what_it_would_cost(tmp_path, train_to):
    without = r"has no units for it \(amx_bf16, avx512_bf16, bf16\).*emulate_bfloat16: true"
    for instructions, message in ((("avx2", "avx512f"), without), ((), "does not report whether it has units for it")):
        with pytest.raises(FlatFedError, match=message):
            train_to(2, instructions)
    assert not (tmp_path / "run").exists()
    train_to(1, ("avx2",), emulate_bfloat16=True)
    output = train_to(1, ("avx2",), precision="float32")
    assert 'it is of another run: precision is "bfloat16", here "float32"' in output


def test_a_run_begun_on_other_units_is_not_gone_on_with(tmp_path, train_to):
    train_to(1)
    assert RESUMED in train_to(2)
    with pytest.raises(FlatFedError, match="has no units"):
        train_to(3, ("avx2",))
    assert (tmp_path / "run/.checkpoint").is_dir(), "nothing is lost"
    output = train_to(3, ("amx_bf16", "avx512_bf16"))
    assert "bfloat16 was multiplied by avx512_bf16, here by amx_bf16 and avx512_bf16" in output
    assert "from the start" in output and read_finished(tmp_path / "run").precision == "bfloat16"


GPU, CPU, NONE = (["a GPU"], "a GPU"), (["avx512_bf16"], "avx512_bf16"), ([], "a CPU without units for it")


@pytest.mark.parametrize(("first", "then"), [(GPU, CPU), (CPU, GPU), (NONE, CPU)])
def test_nor_is_one_begun_on_a_gpu_or_imitated(monkeypatch, train_to, first, then):
    for rounds, (units, _) in ((1, first), (2, first), (3, then)):
        monkeypatch.setattr(precision, "bfloat16_units", lambda config, device, units=units: units)
        output = train_to(rounds, emulate_bfloat16=True)
        assert (RESUMED in output) == (rounds == 2), output
    assert f"bfloat16 was multiplied by {first[1]}, here by {then[1]}" in output


def test_units_of_a_gpu_of_a_cpu_and_of_other_precisions(monkeypatch):
    monkeypatch.setattr(host, "instructions", lambda: ("avx512f", "avx512_bf16"))
    low, full = (RunConfig(**description("fedavg", precision=name)) for name in ("bfloat16", "float32"))
    for device, (units, _) in (("cuda", GPU), ("cpu", CPU)):
        assert precision.bfloat16_units(low, torch.device(device)) == units
        assert precision.bfloat16_units(full, torch.device(device)) is None


def test_keys_that_change_no_number_may_change_under_way(train_to):
    train_to(1, checkpoint_every=1)
    assert RESUMED in train_to(2, checkpoint_every=2, emulate_bfloat16=True)
    assert "is of another run: clip_norm is" in train_to(3, clip_norm=5.0)


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
