"""On a GPU: the same numbers as on the CPU in float64, the same bytes again, resumed runs. Skipped without one."""

import copy
import gc
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from flatfed import algorithms, models
from flatfed.analysis import loss_surface
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import executors
from flatfed.engine.checks import contract
from flatfed.engine.job import assembly, checkpoint
from flatfed.engine.job.machine import set_up
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.resident import placed
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.errors import FlatFedError
from flatfed.runs import landscape_file
from flatfed.runs.run_config import RunConfig
from harness import DROPOUT, IDENTITY, advanced, description, full_rows, job, needs, simulation, sizes, write_problem

EXECUTORS = pytest.mark.parametrize("executor", list(executors.EXECUTORS))
NAMES = pytest.mark.parametrize("name", algorithms.names())


def on_gpu(folder: Path, spec: dict, executor: str) -> Simulation:
    set_up(threads=1)
    data, dealt = datasets.load(folder / "data"), partitions.load(folder / "partition.npz")
    return assembly.simulation(RunConfig(**spec), data, dealt, torch.device("cuda"), executor)


def weights(run: Simulation, rounds: int) -> torch.Tensor:
    """Return the server's model (parameters,) in the order of the model's parameters."""
    advanced(run, rounds)
    return full_rows(run, run.server["w"])[0].cpu()


AS_PAPER = {"model": DROPOUT, "augmentation": "crop_flip_half"}
#: ResNet-18 on the problem's 8 x 8 images: its convolutions see 4 x 4, 2 x 2 and one pixel.
SMALL = {"model": {"name": "resnet18_gn", "options": {"stem": "imagenet", "groups": 2}}}
#: Algorithm, changes, rounds, largest difference relative to the norm of the model.
CASES = [
    *((name, {}, 4, 1e-11) for name in algorithms.names()),
    *(("fedsam", AS_PAPER, 3, 1e-11), ("fedsmoo", SMALL, 2, 1e-10)),
]


@EXECUTORS
@pytest.mark.parametrize(("name", "changes", "rounds", "limit"), CASES)
def test_equals_the_cpu_in_float64(tmp_path, name, changes, rounds, limit, executor):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **needs(name), **changes)
    expected = weights(simulation(tmp_path, spec, "sequential"), rounds)
    assert (weights(on_gpu(tmp_path, spec, executor), rounds) - expected).norm() < limit * expected.norm()


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", ["fedsam", "mimelite", "dfedsam"])
def test_batch_norm_equals_the_cpu_in_float64(tmp_path, name, executor):
    """Weights and running statistics."""
    write_problem(tmp_path)
    spec = description(name, **needs(name), model={"name": "cnn_tiny_bn", "options": {}}, batch_size=7)
    expected = weights(simulation(tmp_path, spec, "sequential"), 3)
    assert (weights(on_gpu(tmp_path, spec, executor), 3) - expected).norm() < 1e-11 * expected.norm()


@NAMES
@EXECUTORS
def test_same_seed_same_bytes_in_float32(tmp_path, name, executor):
    """cuDNN is asked for deterministic algorithms; what torch adds up atomically would show here."""
    write_problem(tmp_path, sizes(name))
    spec = description(name, **{**needs(name), "precision": "float32"})
    assert torch.equal(weights(on_gpu(tmp_path, spec, executor), 4), weights(on_gpu(tmp_path, spec, executor), 4))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", ["resnet18_gn", "cnn", "vgg11_gn"])
def test_the_error_of_products_is_that_of_sequential(model, precision):
    """Relative to float64, TF32 and bfloat16 products of a random gradient may have 1.5 times the error."""
    set_up(threads=1)
    shape, algorithm = (3, 32, 32), algorithms.build("fedavg", {})
    network = models.build(model, shape, 10, {})
    initial = models.initial_weights(network, torch.Generator().manual_seed(1))
    draws = torch.Generator().manual_seed(0)
    images, labels = torch.randn(4, 20, *shape, generator=draws), torch.randint(10, (4, 20), generator=draws)
    masks = [torch.ones(4, 20, *sides) for sides, _ in network.dropout]
    changes = 0.02 * torch.randn(4, len(initial), generator=draws)

    def gradient(executor: str, precision: str) -> torch.Tensor:
        kind, dtype = executors.EXECUTORS[executor], STATE_DTYPES[precision]
        settings = torch.device("cuda"), dtype, False, kind.records_steps
        rows = live.weights(copy.deepcopy(network), initial, algorithm, shape, *settings)
        layers = kind(rows.model, rows.layout, layer_dtype=torch.bfloat16 if precision == "bfloat16" else None)
        full = initial + changes
        if isinstance(rows, live.LiveWeights):
            dead = rows.taps._mask(torch.device("cpu"))
            w = torch.stack([rows.taps.reduce(torch.where(dead, initial, row)) for row in full])
        else:
            w = full
        weight = torch.full((4, 20), 1 / 20)
        values = (images.to("cuda", dtype), labels.cuda(), weight.to("cuda", dtype))
        found = layers(w.to("cuda", dtype), executors.Batch(*values, [mask.to("cuda", dtype) for mask in masks]))[1]
        return torch.cat([values.flatten(1) for values in rows.layout.views(found.double()).values()], dim=1).cpu()

    exact = gradient("sequential", "float64")
    errors = [(gradient(name, precision) - exact).norm() for name in ("sequential", "products")]
    assert errors[1] <= 1.5 * errors[0]


@pytest.mark.parametrize(("executor", "host"), [*((name, False) for name in executors.EXECUTORS), ("stacked", True)])
def test_a_round_does_not_wait_for_the_gpu(tmp_path, monkeypatch, executor, host):
    """torch raises where it would, be it for a number or for a copy from memory that is not page-locked; ``host``:
    images lie there."""
    if host:
        monkeypatch.setattr("flatfed.engine.resident.placed", lambda images, _: placed(images, torch.device("cpu")))
    write_problem(tmp_path)
    run = on_gpu(tmp_path, description("fedsmoo", **AS_PAPER, precision="float32", rounds=9), executor)
    clients = run.sample()

    def round_without_evaluation():
        updates = run.run_clients(clients)
        run.commit(clients, updates, run.aggregate(clients, updates))

    round_without_evaluation()  # the first chooses kernels and records
    try:
        torch.cuda.set_sync_debug_mode("error")
        round_without_evaluation()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(run.server["w"]).all()


@NAMES
def test_resumed_from_a_checkpoint(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **{**needs(name), "precision": "float32"})
    whole = weights(on_gpu(tmp_path, spec, "stacked"), 4)
    first = on_gpu(tmp_path, spec, "stacked")
    weights(first, 2)
    checkpoint.Checkpoint(tmp_path, IDENTITY, first.config).write(first)
    second = on_gpu(tmp_path, spec, "stacked")
    checkpoint.Checkpoint(tmp_path, IDENTITY, second.config).restore(second)
    assert second.state.home == "device" and torch.equal(weights(second, 2), whole)


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
@pytest.mark.parametrize("home", ["memory", "file"])
def test_state_on_the_host_changes_no_byte(tmp_path, home, name):
    """Rows go through page-locked memory."""
    write_problem(tmp_path, sizes(name))
    spec = description(name, precision="float32")
    whole = weights(on_gpu(tmp_path, spec, "stacked"), 4)
    apart = on_gpu(tmp_path, {**spec, "state": home}, "stacked")
    assert apart.state.home == home
    assert all(values.device.type == "cpu" for values in apart.state.store.values())
    assert torch.equal(weights(apart, 4), whole)


@pytest.mark.parametrize(("executor", "room"), [("stacked", 200), ("products", 450)])
def test_a_gpu_without_memory_for_all_rows_trains_fewer(tmp_path, executor, room):
    """A real shortage: ``room`` MiB of the GPU are left to it, less than six rows take; with `rows: 2`, it goes on."""
    write_problem(tmp_path, [64] * 6, side=64)
    spec = description("fedavg", batch_size=64, local_epochs=1, rounds=2, sampling={"scheme": "all"})
    spec |= {"dataset": {**spec["dataset"], "shape": [1, 64, 64]}}
    expected = weights(on_gpu(tmp_path, spec, "stacked"), 2)
    run = on_gpu(tmp_path, spec, executor)
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_reserved() + (room << 20)
    torch.cuda.set_per_process_memory_fraction(taken / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(torch.OutOfMemoryError):
            run.advance()
        assert run.round == 0
        del run
        gc.collect()
        torch.cuda.empty_cache()
        found = weights(on_gpu(tmp_path, {**spec, "rows": 2}, executor), 2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert (found - expected).abs().max() < 1e-11


@pytest.mark.parametrize(
    "graph", [{"graph": "clique", "neighbours": 3}, {"graph": "ring"}], ids=lambda graph: graph["graph"]
)
def test_mixing_is_not_rounded_to_tf32(tmp_path, graph):
    """Nodes outside the clique keep every bit of their model; the others are averages in float32."""
    write_problem(tmp_path)
    spec = description("dfedavg", **{**needs("dfedavg"), "topology": graph, "precision": "float32"})
    run = on_gpu(tmp_path, spec, "stacked")
    models = run.state.store["model"]
    models.copy_(torch.randn(models.shape, generator=torch.Generator().manual_seed(1)))
    before, matrix = models.double().cpu(), torch.from_numpy(run.topology.mixing(0))
    run.mix()
    found = models.double().cpu()
    assert (found - matrix @ before).abs().max() < 1e-6
    alone = (matrix.diagonal() == 1).nonzero().flatten()
    assert torch.equal(found[alone], before[alone])


def test_a_surface_equals_that_of_the_cpu(tmp_path):
    job(tmp_path, "fedavg", "run", precision="float64")
    settings, files = loss_surface.SurfaceSettings(3, 0.5, "train", None, 0), []
    for device in ("cpu", "cuda"):
        inputs = AnalysisInputs(tmp_path / "data", tmp_path / "partition.npz", device)
        files.append(tmp_path / f"{device}.npz")
        loss_surface.surface(tmp_path / "run", inputs, files[-1], settings)
    losses = [landscape_file.read(file).loss for file in files]
    assert losses[1] == pytest.approx(losses[0], rel=1e-11)


def test_check_compares_recorded_steps_with_those_of_a_cpu(outside, monkeypatch):
    """A counter of steps in Python, which `start` sets to 0, is recorded once. (The repeated step finds it, too.)"""
    hooks = (
        "def start(self, w, ctx):\n        self.step = 0\n        return {}",
        "def correct(self, g, w, ctx):\n        self.step += 1\n        return g / self.step",
    )
    path = outside.write("fedcounts", "class FedCounts(FedAvg):\n    " + "\n\n    ".join(hooks) + "\n")
    message = rf"^{re.escape(str(path))}: server vector 'w' changes by .* that a GPU recorded"
    with monkeypatch.context() as patch, pytest.raises(FlatFedError, match=message):
        patch.setattr(contract.repeats, "checked", lambda run: nullcontext())
        list(contract.check("fedcounts"))
    assert any("recorded" in sentence for sentence in contract.check("fedsmoo"))
