"""The first round of a job names an executor that cannot run its model, with the reason."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import dropout, relu

from flatfed import cli
from flatfed.algorithms.fedavg import FedAvg
from flatfed.engine.checks import first_round
from flatfed.engine.executors import EXECUTORS
from flatfed.errors import ConfigError, FlatFedError
from flatfed.models import cnn_tiny
from harness import description, simulation, train_command


def branches_on_data(x):
    return x if float(x.detach().sum()) > 1e9 else relu(x)


def adds_in_place(x):
    return torch.zeros(x.shape).add_(x)


def check(folder, monkeypatch, name: str, does) -> None:
    """Train a round of a model whose output passes through ``does``."""
    forward = cnn_tiny.TinyCNN.forward
    monkeypatch.setattr(cnn_tiny.TinyCNN, "forward", lambda model, x, masks=None: does(forward(model, x)))
    run = simulation(folder, description("fedavg"), name)
    with first_round.checked(run):
        run.advance()


@pytest.mark.parametrize("name", EXECUTORS)
def test_models_that_all_executors_can_run(tmp_path, monkeypatch, name):
    check(tmp_path, monkeypatch, name, relu)


@pytest.mark.parametrize(
    ("does", "reason"),
    [(branches_on_data, r"\.item\(\)"), (adds_in_place, "broadcast shape"), (dropout, "random")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_vmap_cannot_do_is_named_and_sequential_proposed(tmp_path, monkeypatch, does, reason):
    expected = rf"executor stacked cannot run model TinyCNN: .*{reason}.*`executor: sequential`, in the protocol"
    with pytest.raises(ConfigError, match=expected):
        check(tmp_path, monkeypatch, "stacked", does)


@pytest.mark.parametrize("does", [branches_on_data, adds_in_place])
def test_what_sequential_can_do_all_the_same(tmp_path, monkeypatch, does):
    check(tmp_path, monkeypatch, "sequential", does)


def test_random_numbers_of_its_own_are_refused_everywhere(tmp_path, monkeypatch):
    with pytest.raises(FlatFedError, match="FedAvg or model TinyCNN draws from torch's generator"):
        check(tmp_path, monkeypatch, "sequential", dropout)


def test_a_model_that_is_broken_has_no_executor(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"executor sequential cannot run model TinyCNN: .*shape.*No other executor"):
        check(tmp_path, monkeypatch, "sequential", lambda x: x if len(x) == 1 else x @ x)


def test_a_mistake_of_a_hook_is_not_the_models(tmp_path):
    class Broken(FedAvg):
        def correct(self, g, w, ctx):
            return g @ g

    run = simulation(tmp_path, description("fedavg"), algorithm=Broken())
    with pytest.raises(RuntimeError, match="mat1 and mat2"), first_round.checked(run):
        run.advance()


def test_the_command_says_so_and_writes_nothing(tmp_path, monkeypatch, capsys):
    forward = cnn_tiny.TinyCNN.forward
    monkeypatch.setattr(cnn_tiny.TinyCNN, "forward", lambda model, x, masks=None: branches_on_data(forward(model, x)))
    assert train_command(tmp_path, "run", executor={"cpu": "stacked", "cuda": "stacked"}) == cli.REFUSED
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("flatfed train: executor stacked cannot run model TinyCNN: vmap: ")
    assert train_command(tmp_path, "run", executor={"cpu": "sequential", "cuda": "stacked"}) == 0
