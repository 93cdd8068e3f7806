"""FedAvg, FedSAM and FedSMOO in plain PyTorch: modules, ``backward`` and state dicts, for models as users write them.

A frozen parameter gets no gradient here, and a module evaluates in evaluation mode. Shared with flatfed are the initial
weights, the active clients and the batches.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from flatfed.engine.batches import active_clients
from flatfed.engine.weights import initial_model
from flatfed.runs.run_config import RunConfig, SamplingSettings
from harness import Reference, description

Tensors = list[torch.Tensor]
State = dict[str, torch.Tensor]


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def unit(tensors: Tensors) -> Tensors:
    """Return ``tensors`` divided by their common norm."""
    norm = math.sqrt(sum(float(tensor.square().sum()) for tensor in tensors))
    return [tensor / (norm + 1e-7) for tensor in tensors]


def mean(states: Sequence[State], weights: Sequence[float] | None = None) -> State:
    """Return the mean of state dicts with ``weights``, equal ones by default; counts of passes are rounded."""
    weights = torch.tensor([1 / len(states)] * len(states) if weights is None else weights, dtype=torch.double)
    stacked = {key: torch.stack([state[key].double() for state in states]) for key in states[0]}
    means = {key: torch.tensordot(weights, values, 1) for key, values in stacked.items()}
    return {key: value.round() if key.endswith("tracked") else value for key, value in means.items()}


class Plain(Reference):
    """A run: ``server``, a module, and FedSMOO's duals ``h`` and ``mu`` of every client."""

    def __init__(self, folder: Path, spec: dict, module: nn.Module | None = None):
        super().__init__(folder, description("fedavg"))
        self.spec, self.name, self.params = spec, spec["update"]["name"], spec["update"]["params"]
        self.server = initial_model(RunConfig(**spec))[0].double() if module is None else module
        zeros = [torch.zeros_like(parameter) for parameter in trainable(self.server)]
        self.h, self.mu = ([copy.deepcopy(zeros) for _ in self.members] for _ in range(2))
        self.s = zeros

    def served(self, rounds: int) -> State:
        """Return the server's state dict after ``rounds`` from the first."""
        for t in range(rounds):
            self.train(t)
        return self.server.state_dict()

    def train(self, t: int) -> None:
        """One round."""
        clients = active_clients(SamplingSettings(**self.spec["sampling"]), self.m, self.spec["seed"], t)
        self.server.load_state_dict(mean([self.client(int(i), t) for i in clients]))
        if self.name != "fedsmoo":
            return
        with torch.no_grad():
            for number, parameter in enumerate(trainable(self.server)):
                parameter += sum(h[number] for h in self.h) / len(self.h)
        means = [sum(self.mu[i][number] for i in clients) / len(clients) for number in range(len(self.s))]
        self.s = [self.params["rho"] * tensor for tensor in unit(means)]

    def client(self, i: int, t: int, state: State | None = None) -> State:
        """Train client ``i`` from the server's model, or from ``state``; return its state dict."""
        spec, model = self.spec, copy.deepcopy(self.server)
        if state is not None:
            model.load_state_dict(state)
        model.train()
        parameters, smoo = trainable(model), self.name == "fedsmoo"
        received = [parameter.detach().clone() for parameter in parameters]
        penalty = self.params["penalty"] if smoo else 0.0
        rate = spec["learning_rate"] * spec["learning_rate_decay"] ** t
        optimizer = torch.optim.SGD(parameters, lr=rate, weight_decay=spec["weight_decay"] + penalty)
        for index in self.batches(i, t):
            start, buffers = [parameter.detach().clone() for parameter in parameters], {}
            if "rho" in self.params:
                direction = self.gradients(model, index)
                if smoo:
                    direction = [g - mu - s for g, mu, s in zip(direction, self.mu[i], self.s, strict=True)]
                perturbation = [self.params["rho"] * tensor for tensor in unit(direction)]
                if smoo:
                    self.mu[i] = [mu + e - s for mu, e, s in zip(self.mu[i], perturbation, self.s, strict=True)]
                self.place(parameters, [w + e for w, e in zip(start, perturbation, strict=True)])
                if spec.get("batch_norm_second_pass") is False:
                    buffers = {name: value.clone() for name, value in model.named_buffers()}
            gradients = self.gradients(model, index)
            model.load_state_dict(buffers, strict=False)
            self.place(parameters, start)
            if smoo:
                gradients = [g + penalty * (h - w) for g, h, w in zip(gradients, self.h[i], received, strict=True)]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(parameters, spec["clip_norm"])
            optimizer.step()
        self.h[i] = [h + x.detach() - w for h, x, w in zip(self.h[i], parameters, received, strict=True)]
        return copy.deepcopy(model.state_dict())

    def gradients(self, model: nn.Module, index) -> Tensors:
        return list(torch.autograd.grad(cross_entropy(model(self.x[index]), self.y[index]), trainable(model)))

    @staticmethod
    @torch.no_grad()
    def place(parameters: list[nn.Parameter], values: Tensors) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)

    @torch.no_grad()
    def score(self, index) -> dict[str, float]:
        """Return loss and accuracy of the server's model on test images."""
        logits, labels = self.server.eval()(self.x[index]), self.y[index]
        accuracy = (logits.argmax(dim=1) == labels).double().mean()
        return {"test_loss": float(cross_entropy(logits, labels)), "test_accuracy": float(accuracy)}
