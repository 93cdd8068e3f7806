"""FedAvg and FedSAM in plain PyTorch: modules, ``backward`` and state dicts, for models as users write them.

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
    """A run; ``server``: a module."""

    def __init__(self, folder: Path, spec: dict):
        super().__init__(folder, description("fedavg"))
        self.spec, self.params = spec, spec["update"]["params"]
        self.server = initial_model(RunConfig(**spec))[0].double()

    def served(self, rounds: int) -> State:
        """Return the server's state dict after ``rounds`` from the first."""
        for t in range(rounds):
            clients = active_clients(SamplingSettings(**self.spec["sampling"]), self.m, self.spec["seed"], t)
            self.server.load_state_dict(mean([self.client(int(i), t) for i in clients]))
        return self.server.state_dict()

    def client(self, i: int, t: int, state: State | None = None) -> State:
        """Train client ``i`` from the server's model, or from ``state``; return its state dict."""
        spec, model = self.spec, copy.deepcopy(self.server)
        if state is not None:
            model.load_state_dict(state)
        model.train()
        parameters = trainable(model)
        rate = spec["learning_rate"] * spec["learning_rate_decay"] ** t
        optimizer = torch.optim.SGD(parameters, lr=rate, weight_decay=spec["weight_decay"])
        for index in self.batches(i, t):
            start, buffers = [parameter.detach().clone() for parameter in parameters], {}
            if "rho" in self.params:
                perturbation = [self.params["rho"] * tensor for tensor in unit(self.gradients(model, index))]
                self.place(parameters, [w + e for w, e in zip(start, perturbation, strict=True)])
                if spec.get("batch_norm_second_pass") is False:
                    buffers = {name: value.clone() for name, value in model.named_buffers()}
            gradients = self.gradients(model, index)
            model.load_state_dict(buffers, strict=False)
            self.place(parameters, start)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(parameters, spec["clip_norm"])
            optimizer.step()
        return copy.deepcopy(model.state_dict())

    def gradients(self, model: nn.Module, index) -> Tensors:
        return list(torch.autograd.grad(cross_entropy(model(self.x[index]), self.y[index]), trainable(model)))

    @staticmethod
    @torch.no_grad()
    def place(parameters: list[nn.Parameter], values: Tensors) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)
