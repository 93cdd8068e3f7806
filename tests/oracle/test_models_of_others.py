"""Models as others write them (tests/oracle/others), trained by flatfed and by plain PyTorch: the same tensors.

The loops below keep a module per client, call ``backward`` and average state dicts; a frozen parameter gets no gradient
there, and a module evaluates in evaluation mode. They share with flatfed the seed of the weights, the active clients
and the batches.
"""

from __future__ import annotations

import copy
import functools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.data.streams import torch_seed
from flatfed.engine import batches
from flatfed.engine.executors import EXECUTORS
from flatfed.errors import ConfigError
from flatfed.runs import record as records
from flatfed.runs.run_config import SamplingSettings
from harness import description, job, lines, write_problem
from samples import sampled

FOLDER = Path(__file__).with_name("others")
MODELS = sorted(path.stem for path in FOLDER.glob("*.py"))
SHAPE, CLASSES, ROUNDS = (1, 8, 8), 3, 2
ALGORITHMS = {"fedavg": {}, "fedsam": {"rho": 0.1}, "fedsmoo": {"rho": 0.1, "penalty": 0.1}}
SAMPLING = {"scheme": "fixed", "fraction": 0.67, "sampler": "keyed"}  # four of six: two clients come twice

#: (model, executor) -> the layer that the executor refuses. vmap has no rule for torch's recurrent layers.
GRU = r"layer 'gru' \(GRU\)"
REFUSED = {("recurrent", "stacked"): GRU, ("recurrent", "products"): GRU}

Tensors = list[torch.Tensor]


@pytest.fixture(scope="module", autouse=True)
def problem(tmp_path_factory):
    """Yield a folder with data and partition; the models of others are a user's meanwhile."""
    folder = tmp_path_factory.mktemp("others")
    write_problem(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "__path__", list(models.__path__))
        models.FILES.look_in([FOLDER], "a test")
        yield folder


def spec(model: str, algorithm: str) -> dict:
    """Return the description of a run."""
    settings = {"model": {"name": model, "options": {}}, "rounds": ROUNDS, "sampling": SAMPLING}
    return description(algorithm, ALGORITHMS[algorithm], **settings)


def built(model: str, seed: int) -> nn.Module:
    """Return the module with the weights that its own code draws for ``seed``, in float64."""
    torch.manual_seed(torch_seed(seed, "weights"))
    module = __import__(f"flatfed.models.{model}", fromlist=["build"]).build(SHAPE, CLASSES)
    module(torch.zeros(1, *SHAPE))  # lazy layers
    return module.double()


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def unit(tensors: Tensors) -> Tensors:
    """Return ``tensors`` divided by their common norm."""
    norm = math.sqrt(sum(float(tensor.square().sum()) for tensor in tensors))
    return [tensor / (norm + 1e-7) for tensor in tensors]


class Plain:
    """A run in plain PyTorch: ``server``, a module, and FedSMOO's duals ``h`` and ``mu`` of every client."""

    def __init__(self, folder: Path, settings: dict):
        self.settings, self.name, self.params = settings, settings["update"]["name"], settings["update"]["params"]
        with np.load(folder / "partition.npz") as dealt:
            self.members = np.split(dealt["indices"], dealt["offsets"][1:-1])
            self.test = dealt["test"]
        mean, std = settings["dataset"]["mean"][0], settings["dataset"]["std"][0]
        self.x = (torch.from_numpy(np.load(folder / "data/images.npy")).double() / 255 - mean) / std
        self.y = torch.from_numpy(np.load(folder / "data/labels.npy"))
        self.server = built(settings["model"]["name"], settings["seed"])
        zeros = [torch.zeros_like(parameter) for parameter in trainable(self.server)]
        self.h, self.mu = ([copy.deepcopy(zeros) for _ in self.members] for _ in range(2))
        self.s = zeros

    def train(self, t: int) -> None:
        """One round."""
        clients = batches.active_clients(
            SamplingSettings(**self.settings["sampling"]), len(self.members), self.settings["seed"], t
        )
        received = [parameter.detach().clone() for parameter in trainable(self.server)]
        states = [self.client(int(i), t, received) for i in clients]
        self.server.load_state_dict(
            {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}
        )
        if self.name != "fedsmoo":
            return
        with torch.no_grad():
            for number, parameter in enumerate(trainable(self.server)):
                parameter += sum(h[number] for h in self.h) / len(self.h)
        mean = [sum(self.mu[i][number] for i in clients) / len(clients) for number in range(len(received))]
        self.s = [self.params["rho"] * tensor for tensor in unit(mean)]

    def client(self, i: int, t: int, received: Tensors) -> dict[str, torch.Tensor]:
        """Train client ``i`` from the model ``received``; return its state dict."""
        settings, model = self.settings, copy.deepcopy(self.server).train()
        parameters, smoo = trainable(model), self.name == "fedsmoo"
        penalty = self.params["penalty"] if smoo else 0.0
        rate = settings["learning_rate"] * settings["learning_rate_decay"] ** t
        optimizer = torch.optim.SGD(parameters, lr=rate, weight_decay=settings["weight_decay"] + penalty)
        for index in self.batches(i, t):
            start = [parameter.detach().clone() for parameter in parameters]
            if self.name != "fedavg":
                direction = self.gradients(model, optimizer, index)
                if smoo:
                    direction = [g - mu - s for g, mu, s in zip(direction, self.mu[i], self.s, strict=True)]
                perturbation = [self.params["rho"] * tensor for tensor in unit(direction)]
                if smoo:
                    self.mu[i] = [mu + e - s for mu, e, s in zip(self.mu[i], perturbation, self.s, strict=True)]
                self.place(parameters, [w + e for w, e in zip(start, perturbation, strict=True)])
            gradients = self.gradients(model, optimizer, index)
            self.place(parameters, start)
            if smoo:
                gradients = [g + penalty * (h - w) for g, h, w in zip(gradients, self.h[i], received, strict=True)]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(parameters, settings["clip_norm"])
            optimizer.step()
        self.h[i] = [h + x.detach() - w for h, x, w in zip(self.h[i], parameters, received, strict=True)]
        return copy.deepcopy(model.state_dict())

    def batches(self, i: int, t: int) -> list[np.ndarray]:
        """Return the client's batches of the round, in order."""
        schedule = batches.Schedule(self.settings["batch_size"], self.settings["local_epochs"])
        draws = {"seed": self.settings["seed"], "round_": t, "augmentation": "none"}
        dealt = batches.plan(np.array([i]), self.members, schedule, **draws)
        return [index[weight > 0] for index, weight in zip(dealt.index[0], dealt.weight[0], strict=True)]

    def gradients(self, model: nn.Module, optimizer: torch.optim.Optimizer, index: np.ndarray) -> Tensors:
        optimizer.zero_grad()
        cross_entropy(model(self.x[index]), self.y[index]).backward()
        return [parameter.grad.clone() for parameter in trainable(model)]

    @staticmethod
    @torch.no_grad()
    def place(parameters: list[nn.Parameter], values: Tensors) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)

    @torch.no_grad()
    def score(self) -> dict[str, float]:
        """Return loss and accuracy on the test images."""
        logits, labels = self.server.eval()(self.x[self.test]), self.y[self.test]
        accuracy = (logits.argmax(dim=1) == labels).double().mean()
        return {"test_loss": float(cross_entropy(logits, labels)), "test_accuracy": float(accuracy)}


@functools.cache
def plain(folder: Path, model: str, algorithm: str) -> Plain:
    """Return the run in plain PyTorch after its last round."""
    run = Plain(folder, spec(model, algorithm))
    for t in range(ROUNDS):
        run.train(t)
    return run


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("model", sampled(MODELS, ["tutorial_cnn"]))
def test_trains_as_in_plain_pytorch(problem, model, algorithm, executor):
    models.check_runs(model, SHAPE, CLASSES, {}, "a test")
    settings = {**spec(model, algorithm), "executor": {"cpu": executor, "cuda": executor}}
    out = f"{model}-{algorithm}-{executor}"
    if layer := REFUSED.get((model, executor)):
        with pytest.raises(ConfigError, match=rf"executor {executor} cannot run .*: {layer}: .*`executor: sequential`"):
            job(problem, algorithm, out, **settings)
        return
    folder, expected = job(problem, algorithm, out, **settings), plain(problem, model, algorithm)
    found, initial = load_file(folder / records.MODEL), built(model, settings["seed"]).state_dict()
    named = expected.server.named_parameters(remove_duplicate=False)
    trained = {name for name, parameter in named if parameter.requires_grad}
    assert found.keys() == initial.keys()
    for name, tensor in expected.server.state_dict().items():
        assert found[name].dtype == torch.float64
        assert (found[name] - tensor).abs().max() < 1e-10, name
        assert ((tensor - initial[name]).abs().max() > 1e-3) == (name in trained), "all move but what is fixed"
    (*_, last) = lines(folder)
    assert {key: float(last[key]) for key in expected.score()} == pytest.approx(expected.score(), abs=1e-10)
