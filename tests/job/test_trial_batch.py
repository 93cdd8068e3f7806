"""An executor that cannot run a model is named before the first round, with the reason."""

from __future__ import annotations

import pytest
import torch
from test_shortage import command
from torch import nn
from torch.nn.functional import dropout, relu

from flatfed import cli
from flatfed.engine import executors
from flatfed.engine.checks import trial_batch as batch_of_two
from flatfed.engine.executors import EXECUTORS
from flatfed.engine.layout import Layout
from flatfed.engine.speed import row_layers
from flatfed.errors import ConfigError
from flatfed.models import cnn_tiny
from harness import DROPOUT, description, simulation


class Odd(nn.Module):
    """A dense layer, and what ``does`` makes of its output."""

    def __init__(self, does):
        super().__init__()
        self.dropout = []
        self.dense = nn.Linear(16, 3)
        self.does = does

    def forward(self, x, masks=None):
        return self.does(self.dense(x.flatten(1)))


def branches_on_data(x):
    return x if float(x.detach().sum()) > 1e9 else relu(x)


def adds_in_place(x):
    return torch.zeros(x.shape).add_(x)


def check(name: str, model: nn.Module) -> None:
    model.requires_grad_(False)
    kind = executors.executor_class(name)
    model = row_layers.convert(model) if kind.row_layers else model
    executor = kind(model, Layout.of(model))
    batch_of_two.check(executor, (1, 4, 4), 0, torch.float32, torch.device("cpu"))


@pytest.mark.parametrize("name", EXECUTORS)
def test_models_that_all_executors_can_run(name):
    check(name, Odd(relu))


@pytest.mark.parametrize(
    ("does", "reason"),
    [(branches_on_data, r"\.item\(\)"), (adds_in_place, "broadcast shape"), (dropout, "random")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_vmap_cannot_do_is_named_and_sequential_proposed(does, reason):
    expected = rf"executor stacked cannot run model Odd: .*{reason}.*`executor: sequential`, in the protocol"
    with pytest.raises(ConfigError, match=expected):
        check("stacked", Odd(does))


@pytest.mark.parametrize("does", [branches_on_data, adds_in_place])
def test_what_sequential_can_do_all_the_same(does):
    check("sequential", Odd(does))


def test_random_numbers_of_its_own_are_refused_everywhere():
    with pytest.raises(ConfigError, match="executor sequential cannot run model Odd: it draws random numbers"):
        check("sequential", Odd(dropout))


def test_a_model_that_is_broken_has_no_executor():
    with pytest.raises(ConfigError, match=r"executor sequential cannot run model Odd: .*shape.*No other executor"):
        check("sequential", Odd(lambda x: x @ x))


def test_the_command_says_so_before_the_first_round(tmp_path, monkeypatch, capsys):
    forward = cnn_tiny.TinyCNN.forward
    monkeypatch.setattr(cnn_tiny.TinyCNN, "forward", lambda model, x, masks=None: branches_on_data(forward(model, x)))
    assert command(tmp_path, "run", executor={"cpu": "stacked", "cuda": "stacked"}) == cli.REFUSED
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("flatfed train: executor stacked cannot run model TinyCNN: vmap: ")
    assert command(tmp_path, "run", executor={"cpu": "sequential", "cuda": "stacked"}) == 0


def test_what_is_tried_moves_nothing(tmp_path):
    """Private coordinates and dropout masks are part of what is tried."""
    run = simulation(tmp_path, description("fedrobust", model=DROPOUT))
    assert torch.equal(run.server["w"][0], run.weights.initial) and not run.state.store["private"].any()
