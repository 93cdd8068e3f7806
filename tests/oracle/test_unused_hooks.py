"""What the engine does with algorithms that no file has: full gradients, client state anywhere, wrong declarations."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from exact import EVERYBODY, EXECUTORS, ONE_STEP, RING, TOLERANCE, gap

from flatfed import algorithms
from flatfed.algorithms import Algorithm
from flatfed.algorithms.fedavg import FedAvg
from flatfed.engine.job import checkpoint
from flatfed.engine.memory import home as homes
from flatfed.errors import ConfigError, Shortage
from harness import IDENTITY, description, job, needs, simulation


class Gossip(Algorithm):
    """Local SGD and mixing: the decentralised hooks as they come."""

    decentralised = True


class Shift(FedAvg):
    """A private additive shift of the images."""

    def private_size(self, image_shape):
        return image_shape[0]


class FullGradient(FedAvg):
    """Replaces every step's gradient by the one on all of the client's data at the received model."""

    full_passes = 1

    def correct(self, g, w, ctx):
        return g.copy_(ctx.scratch["full_gradient"])


@EXECUTORS
def test_full_gradient_is_that_of_all_the_clients_data(tmp_path, executor):
    """Without augmentation."""
    spec = description("fedavg", **EVERYBODY, **ONE_STEP, clip_norm=None)
    run = simulation(tmp_path, {**spec, "augmentation": "crop_flip_half"}, executor, algorithm=FullGradient())
    plain = simulation(tmp_path, spec, executor)
    run.advance(), plain.advance()
    assert gap(run.server["w"], plain.server["w"]) < TOLERANCE


def test_a_decentralised_run_resumes_exactly_when_few_clients_train(tmp_path):
    """Mixing moves the models of clients that did not train, so a checkpoint must hold them all."""
    spec = description("fedavg", **{**RING, "sampling": {"scheme": "fixed", "fraction": 0.34}})
    whole, first, second = (simulation(tmp_path, spec, algorithm=Gossip()) for _ in range(3))
    for run in (whole, whole, whole, first):
        run.advance()
    checkpoint.Checkpoint(tmp_path, IDENTITY).write(first)
    saved = checkpoint.Checkpoint(tmp_path, IDENTITY)
    assert saved.executor == "stacked"
    saved.restore(second)
    second.advance(), second.advance()
    assert torch.equal(second.state.store["model"], whole.state.store["model"])


@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam"])
def test_client_state_in_a_file_is_that_in_memory(tmp_path, name):
    spec = description(name, **needs(name))
    run, plain = (simulation(tmp_path, {**spec, **state}) for state in ({"state": "file"}, {}))
    assert run.state.home == "file"
    for _ in range(2):
        assert run.advance() | {"seconds": 0} == plain.advance() | {"seconds": 0}
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
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    yield matmul
    matmul.fp32_precision = before


def test_models_are_averaged_without_tf32(tmp_path, tf32):
    """Training may use TF32 on a GPU; where models are mixed or aggregated it is off, and on again afterwards."""
    seen = []

    class Watched(Gossip):
        def mix(self, models, mixing, ctx):
            seen.append(tf32.fp32_precision)

    class Served(FedAvg):
        def aggregate(self, server, uploads, ctx):
            seen.append(tf32.fp32_precision)
            return super().aggregate(server, uploads, ctx)

    for kind in (Watched, Served):
        simulation(tmp_path, description("fedavg", **RING), algorithm=kind()).advance()
    assert seen == ["ieee", "ieee"] and tf32.fp32_precision == "tf32"


@pytest.mark.parametrize(
    ("bases", "declared", "message"),
    [
        ((Shift, algorithms.load("scaffold")), {}, "Odd: private coordinates exclude client"),
        ((Gossip,), {}, "Odd is decentralised, but split 'test' has no topology"),
        ((FedAvg,), {"client_state": "mu"}, "client_state is 'mu'; expected: a tuple of names"),
        ((FedAvg,), {"client_state": ("model",)}, "client_state may not have 'model'"),
        ((FedAvg,), {"server_state": ("w",)}, "server_state may not have 'w'"),
    ],
)
def test_wrong_declarations_are_refused(tmp_path, bases, declared, message):
    with pytest.raises(ConfigError, match=message):
        simulation(tmp_path, description("fedavg"), algorithm=type("Odd", bases, declared)())
