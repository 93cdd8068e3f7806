"""The hooks that none of the shipped algorithms uses yet: mixing, private coordinates, full gradients, own draws."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from flatfed import algorithms
from flatfed.algorithms import Algorithm
from flatfed.algorithms.fedavg import FedAvg
from flatfed.engine.job import checkpoint
from flatfed.engine.memory import home as homes
from flatfed.errors import ConfigError, Shortage
from harness import IDENTITY, SIZES, Reference, description, job, needs, simulation, write_problem

EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])
EVERYBODY = {"scheme": "all"}


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


class Gossip(Algorithm):
    """Local SGD and mixing: the decentralised hooks as they come."""

    decentralised = True


class MixFirst(Gossip):
    mix_first = True


class Shift(FedAvg):
    """A private additive shift of the images, moved up the gradient while the model moves down."""

    def private_size(self, image_shape):
        return image_shape[0]

    def transform(self, images, private):
        return images + private[:, None, None]

    def update(self, w, d, ctx):
        d = d.clone()
        d[:, ctx.layout.size :].neg_()
        return super().update(w, d, ctx)


class FullGradient(FedAvg):
    """Replaces every step's gradient by the one on all of the client's data at the received model."""

    full_passes = 1

    def correct(self, g, w, ctx):
        return g.copy_(ctx.scratch["full_gradient"])


class Noise(FedAvg):
    """Adds its own draws to the uploaded model."""

    def finish(self, w, ctx):
        return {}, {"w": w + ctx.uniform(0, (w.shape[1],))}


@EXECUTORS
def test_full_graph_is_fedavg_with_everybody(tmp_path, executor):
    spec = description("fedavg", sampling=EVERYBODY, topology={"graph": "full"})
    gossip = simulation(tmp_path, spec, executor, algorithm=Gossip())
    server = simulation(tmp_path, spec, executor)
    for _ in range(3):
        line, other = gossip.advance(), server.advance()
        assert gap(gossip.server["w"], server.server["w"]) < 1e-12
        assert line["consistency"] == pytest.approx(other["consistency"], rel=1e-9)
    assert line["upload_bytes"] == 3 * 6 * 5 * gossip.layout.size * 8


def test_ring_mixes_neighbours_and_keeps_the_mean(tmp_path):
    spec = description("fedavg", sampling=EVERYBODY, topology={"graph": "ring"})
    run = simulation(tmp_path, spec, algorithm=Gossip())
    models = run.state.store["model"]
    models.copy_(torch.randn(models.shape, generator=torch.Generator().manual_seed(1), dtype=models.dtype))
    before = models.clone()
    run.algorithm.mix(models, lambda step: torch.from_numpy(run.topology.mixing(0, step)), None)
    assert gap(models[0], (before[5] + before[0] + before[1]) / 3) < 1e-12
    assert gap(models.mean(dim=0), before.mean(dim=0)) < 1e-12


def test_order_of_mixing_and_training(tmp_path):
    """On a full graph, training after mixing leaves the models apart; the consensus is their mean."""
    spec = description("fedavg", sampling=EVERYBODY, topology={"graph": "full"})
    run = simulation(tmp_path, spec, algorithm=MixFirst())
    run.advance()
    models = run.state.store["model"]
    assert gap(models[0], models[1]) > 1e-4
    assert gap(run.server["w"][0], models.mean(dim=0)) < 1e-12
    last = simulation(tmp_path, spec, algorithm=Gossip())
    last.advance()
    assert gap(last.state.store["model"][0], last.state.store["model"][1]) < 1e-12
    assert gap(last.server["w"], run.server["w"]) < 1e-12


def test_private_coordinates_train_persist_and_are_never_sent(tmp_path):
    spec = description("fedavg", clip_norm=None)
    runs = [simulation(tmp_path, spec, name, algorithm=Shift()) for name in ("sequential", "stacked")]
    lines = [run.advance() for run in runs]
    assert gap(runs[0].server["w"], runs[1].server["w"]) < 1e-12
    first = runs[0].state.store["private"].clone()
    assert gap(first, runs[1].state.store["private"]) < 1e-12
    assert first.shape == (6, 1) and int((first != 0).sum()) == lines[0]["clients"]
    assert lines[0]["upload_bytes"] == lines[0]["clients"] * runs[0].layout.size * 8
    runs[0].advance()
    untouched = torch.from_numpy(~runs[0].state.touched)
    assert not runs[0].state.store["private"][untouched].any()


def test_private_coordinates_follow_their_gradient(tmp_path):
    """One client, one step: the shift moves by + eta times the gradient of the loss with respect to it."""
    write_problem(tmp_path, [8])
    changes = dict(partition={"clients": 1}, sampling=EVERYBODY, local_epochs=1, batch_size=8, clip_norm=None)
    spec = description("fedavg", weight_decay=0.0, **changes)
    run = simulation(tmp_path, spec, algorithm=Shift())
    reference = Reference(tmp_path, spec)
    index, step = reference.batches(0, 0)[0], 1e-5
    start = reference.w.clone()
    losses = []
    for sign in (1, -1):
        torch.nn.utils.vector_to_parameters(start, reference.model.parameters())
        output = reference.model(reference.x[index] + sign * step)
        losses.append(torch.nn.functional.cross_entropy(output, reference.y[index]).item())
    run.advance()
    slope = (losses[0] - losses[1]) / (2 * step)
    assert run.state.store["private"].item() == pytest.approx(spec["learning_rate"] * slope, rel=1e-6)


@EXECUTORS
def test_full_gradient_is_that_of_all_the_clients_data(tmp_path, executor):
    spec = description("fedavg", sampling=EVERYBODY, local_epochs=1, batch_size=max(SIZES), clip_norm=None)
    run = simulation(tmp_path, {**spec, "augmentation": "crop_flip_half"}, executor, algorithm=FullGradient())
    plain = simulation(tmp_path, spec, executor)
    run.advance(), plain.advance()
    assert gap(run.server["w"], plain.server["w"]) < 1e-12


def test_own_draws_are_keyed_by_client_and_round(tmp_path):
    spec = description("fedavg")
    runs = [simulation(tmp_path, spec, name, algorithm=Noise()) for name in ("sequential", "stacked")]
    for run in runs:
        run.advance(), run.advance()
    assert gap(runs[0].server["w"], runs[1].server["w"]) < 1e-12


def test_a_decentralised_run_resumes_exactly_when_few_clients_train(tmp_path):
    """Mixing moves the models of clients that did not train, so a checkpoint must hold them all."""
    spec = description("fedavg", topology={"graph": "ring"}, sampling={"scheme": "fixed", "fraction": 0.34})
    whole = simulation(tmp_path, spec, algorithm=Gossip())
    for _ in range(3):
        whole.advance()
    first = simulation(tmp_path, spec, algorithm=Gossip())
    first.advance()
    checkpoint.Checkpoint(tmp_path, IDENTITY).write(first)
    saved = checkpoint.Checkpoint(tmp_path, IDENTITY)
    assert saved.executor == "stacked"
    second = simulation(tmp_path, spec, algorithm=Gossip())
    saved.restore(second)
    second.advance(), second.advance()
    assert torch.equal(second.state.store["model"], whole.state.store["model"])


def test_what_cannot_be_combined_is_refused_by_name(tmp_path):
    class PrivateScaffold(Shift, algorithms.load("scaffold")):
        pass

    with pytest.raises(ConfigError, match="PrivateScaffold: private coordinates exclude client"):
        simulation(tmp_path, description("fedavg"), algorithm=PrivateScaffold())
    with pytest.raises(ConfigError, match="Gossip is decentralised, but split 'test' has no topology"):
        simulation(tmp_path, description("fedavg"), algorithm=Gossip())


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam"])
@pytest.mark.parametrize("home", ["memory", "file"])
def test_client_state_is_the_same_wherever_it_lies(tmp_path, home, name, executor):
    spec = description(name, **needs(name))
    run = simulation(tmp_path, {**spec, "state": home}, executor)
    assert run.state.home == home
    lines = [run.advance(), run.advance()]
    plain = simulation(tmp_path, spec, executor)
    for line in lines:
        assert line | {"seconds": 0} == plain.advance() | {"seconds": 0}
    assert torch.equal(run.server["w"], plain.server["w"])
    assert all(torch.equal(values, plain.state.store[key]) for key, values in run.state.store.items())


def test_a_file_of_client_state_is_announced_and_refused_where_the_disk_has_no_room(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(homes, "available", lambda: 0)
    job(tmp_path, "fedsmoo", "run")
    assert "client state is in a file in /" in capsys.readouterr().err
    monkeypatch.setattr(homes.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(Shortage, match=r"client state: 69 kB .* space in /.* \(1 kB\).*TMPDIR"):
        job(tmp_path, "fedsmoo", "other")


@pytest.fixture
def tf32():
    """Allow TF32 for a test."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    yield
    torch.backends.cuda.matmul.fp32_precision = before


def test_models_are_averaged_without_tf32(tmp_path, tf32):
    """Training may use TF32 on a GPU; where models are mixed or aggregated it is off, and on again afterwards."""
    seen = []

    class Watched(Gossip):
        def mix(self, models, mixing, ctx):
            seen.append(torch.backends.cuda.matmul.fp32_precision)

    class Served(FedAvg):
        def aggregate(self, server, uploads, ctx):
            seen.append(torch.backends.cuda.matmul.fp32_precision)
            return super().aggregate(server, uploads, ctx)

    spec = description("fedavg", sampling=EVERYBODY, topology={"graph": "ring"})
    for kind in (Watched, Served):
        run = simulation(tmp_path, spec, algorithm=kind())
        run.advance()
        assert seen.pop() == "ieee" and not seen
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"client_state": "mu"}, "client_state is 'mu'; expected: a tuple of names"),
        ({"client_state": ("model",)}, "client_state may not have 'model'"),
        ({"server_state": ("w",)}, "server_state may not have 'w'"),
    ],
)
def test_state_that_cannot_be_is_refused(tmp_path, state, words):
    with pytest.raises(ConfigError, match=words):
        simulation(tmp_path, description("fedavg"), algorithm=type("Odd", (FedAvg,), state)())
