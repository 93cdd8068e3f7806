"""On a GPU: the same numbers as on the CPU in float64, the same bytes again, resumed runs. Skipped without one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from harness import description, needs, simulation, sizes, write_problem

from flatfed import algorithms
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import checkpoint
from flatfed.engine.simulation import Simulation
from flatfed.engine.train import set_up

EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked", "streams", "graph", "branches"])
NAMES = pytest.mark.parametrize("name", algorithms.names())


def on_gpu(folder: Path, spec: dict, executor: str) -> Simulation:
    set_up(threads=1)
    data, dealt = datasets.load(folder / "data"), partitions.load(folder / "partition.npz")
    return Simulation(spec, data, dealt, torch.device("cuda"), executor)


def weights(run: Simulation, rounds: int) -> torch.Tensor:
    for _ in range(rounds):
        run.advance()
    return run.server["w"].cpu().clone()


@NAMES
@EXECUTORS
def test_equals_the_cpu_in_float64(tmp_path, name, executor):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **needs(name))
    expected = weights(simulation(tmp_path, spec, "sequential"), 4)
    assert (weights(on_gpu(tmp_path, spec, executor), 4) - expected).abs().max() < 1e-11


@NAMES
@EXECUTORS
def test_same_seed_same_bytes_in_float32(tmp_path, name, executor):
    """cuDNN is asked for deterministic algorithms; what torch adds up atomically would show here."""
    write_problem(tmp_path, sizes(name))
    spec = description(name, **{**needs(name), "precision": "float32"})
    assert torch.equal(weights(on_gpu(tmp_path, spec, executor), 4), weights(on_gpu(tmp_path, spec, executor), 4))


@NAMES
def test_resumed_from_a_checkpoint(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **{**needs(name), "precision": "float32"})
    whole = weights(on_gpu(tmp_path, spec, "stacked"), 4)
    first = on_gpu(tmp_path, spec, "stacked")
    weights(first, 2)
    checkpoint.Checkpoint(tmp_path, {"run": "a"}).write(first, {})
    second = on_gpu(tmp_path, spec, "stacked")
    checkpoint.Checkpoint(tmp_path, {"run": "a"}).restore(second)
    assert second.state.home == "device" and torch.equal(weights(second, 2), whole)


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
def test_state_on_the_host_changes_no_byte(tmp_path, monkeypatch, name):
    """From the start, or moved there after a round; rows go through page-locked memory."""
    write_problem(tmp_path, sizes(name))
    spec = description(name, precision="float32")
    whole = weights(on_gpu(tmp_path, spec, "stacked"), 4)
    moved = on_gpu(tmp_path, spec, "stacked")
    moved.advance()
    moved.state.move_out()
    if moved.received is not None:
        moved.received.move_out()
    monkeypatch.setattr("flatfed.engine.client_state._home", lambda size, device: "memory")
    apart = on_gpu(tmp_path, spec, "stacked")
    assert apart.state.home == moved.state.home == "memory"
    assert all(values.device.type == "cpu" for run in (apart, moved) for values in run.state.store.values())
    assert torch.equal(weights(apart, 4), whole) and torch.equal(weights(moved, 3), whole)


def test_a_gpu_without_memory_for_all_rows_trains_fewer(tmp_path, capsys):
    """A real shortage: 200 MB of the GPU are left to it, and six rows take 360."""
    write_problem(tmp_path, [64] * 6, side=64)
    spec = description("fedavg", batch_size=64, local_epochs=1, rounds=2, sampling={"scheme": "all"})
    spec |= {"dataset": {**spec["dataset"], "shape": [1, 64, 64]}}
    expected = weights(on_gpu(tmp_path, spec, "stacked"), 2)
    run = on_gpu(tmp_path, spec, "stacked")
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_reserved() + (200 << 20)
    torch.cuda.set_per_process_memory_fraction(taken / torch.cuda.mem_get_info()[1])
    try:
        found = weights(run, 2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert (found - expected).abs().max() < 1e-11
    assert run.rows is not None and "at a time now" in capsys.readouterr().err


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
    run._mix(torch.tensor(0.1, device="cuda"))
    found = models.double().cpu()
    assert (found - matrix @ before).abs().max() < 1e-6
    alone = (matrix.diagonal() == 1).nonzero().flatten()
    assert torch.equal(found[alone], before[alone])
