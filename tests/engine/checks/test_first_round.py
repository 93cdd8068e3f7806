"""The first round of a job names an executor that cannot run its model, with the reason; unmet requirements."""

import pytest
import torch
from torch.nn.functional import dropout, relu

from flatfed.algorithms import Algorithm
from flatfed.algorithms.dispfl import DisPFL
from flatfed.algorithms.fedgmt import FedGMT
from flatfed.algorithms.scaffold import Scaffold
from flatfed.engine.checks import first_round, repeats
from flatfed.engine.executors import EXECUTORS
from flatfed.errors import ConfigError, FlatFedError
from flatfed.models import cnn_tiny
from harness import description, simulation


def branches_on_data(x):
    return x if float(x.detach().sum()) > 1e9 else relu(x)


def adds_in_place(x):
    return torch.zeros(x.shape).add_(x)


def breaks(x):
    return x if len(x) == 2 else x @ x


def change_model(monkeypatch, does) -> None:
    """Pass the output of the model through ``does``."""
    forward = cnn_tiny.TinyCNN.forward
    monkeypatch.setattr(cnn_tiny.TinyCNN, "forward", lambda model, x, masks=None: does(forward(model, x)))


RING = {"topology": {"graph": "ring"}, "sampling": {"scheme": "all"}}
STACKED = "executor stacked cannot run model TinyCNN: .*"
SEQUENTIAL = ".*`executor: sequential`, in the protocol"


@pytest.mark.parametrize(
    ("executor", "does", "message"),
    [
        *((executor, relu, None) for executor in EXECUTORS),
        ("sequential", branches_on_data, None),
        ("sequential", adds_in_place, None),
        ("stacked", branches_on_data, rf"{STACKED}\.item\(\){SEQUENTIAL}"),
        ("stacked", adds_in_place, f"{STACKED}broadcast shape{SEQUENTIAL}"),
        ("stacked", dropout, f"{STACKED}random{SEQUENTIAL}"),
        ("sequential", dropout, "FedAvg or model TinyCNN draws from torch's generator"),
        ("sequential", breaks, "executor sequential cannot run model TinyCNN: .*shape.*No other executor"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_executors_can_run(tmp_path, monkeypatch, executor, does, message):
    change_model(monkeypatch, does)
    run = simulation(tmp_path, description("fedavg"), executor)
    if message is None:
        with first_round.checked(run), repeats.checked(run):
            run.advance()
    else:
        with pytest.raises((ConfigError, FlatFedError), match=message), first_round.checked(run), repeats.checked(run):
            run.advance()


def test_the_layer_is_named(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("fedavg"), "stacked")
    monkeypatch.setattr(run.model.conv2, "forward", branches_on_data)
    message = rf"{STACKED}layer 'conv2' \(Conv2d\): .*\.item\(\)"
    with pytest.raises(ConfigError, match=message), first_round.checked(run):
        run.advance()


class Headed(Scaffold):
    """A variate of the server for weights that stay on the clients."""

    local = ("dense.*",)


class Misnamed(Algorithm):
    local = ("head.*", "top.*")


class Unfounded(Algorithm):
    """A hook for local parameters without any."""

    def update_local(self, local, g, ctx):
        return local


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        (Headed(), {}, "algorithm Headed: local parameters exclude server_state"),
        (Misnamed(), {}, r"local of the algorithm: unknown parameter 'head\.\*'; .*conv1\.weight, "),
        (Unfounded(), {}, "Unfounded.update_local: has no effect; expected: also parameters in `local`"),
        (FedGMT(), {"label_smoothing": 0.1}, r"FedGMT: label_smoothing: .* loss of its own"),
        (DisPFL(density=0.001), RING, r"density 0\.001 leaves nothing for sparse layers: .* are 0\.\d+ of this"),
    ],
)
def test_an_algorithm_refuses_a_run_without_its_requirements(tmp_path, algorithm, changes, message):
    with pytest.raises(ConfigError, match=message):
        simulation(tmp_path, description("fedavg", **changes), algorithm=algorithm)
