"""Checks of an algorithm against its run."""

from __future__ import annotations

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.errors import ConfigError
from flatfed.runs.run_config import RunConfig


def check(algorithm: Algorithm, config: RunConfig, clients: int, private: int, weights: Tensor) -> None:
    """Refuse ``algorithm`` with ``private`` coordinates per client, ``clients`` clients and initial ``weights``.

    bfloat16 may round the weights by at most four times the perturbation's norm. Up to there, the gradient's change on
    ResNet-18 keeps a cosine of 0.97 with float32's (benchmarks/perturbation.py).
    """
    name, split = type(algorithm).__name__, config.split
    if algorithm.central and clients > 1:
        raise ConfigError(f"algorithm {name} needs all data on one client, but split {split!r} has {clients} clients")
    if algorithm.decentralised and config.topology is None:
        raise ConfigError(f"algorithm {name} is decentralised, but split {split!r} has no topology")
    if algorithm.decentralised and algorithm.remembers:
        raise ConfigError(f"algorithm {name}: without a server, clients receive no model to remember")
    if config.momentum and "momentum" in algorithm.parameters():
        raise ConfigError(f"algorithm {name}: momentum: the run sets it, and the algorithm has a parameter of its own")
    if config.label_smoothing and type(algorithm).second_model is not Algorithm.second_model:
        raise ConfigError(f"algorithm {name}: label_smoothing: the algorithm has a loss of its own")
    state = algorithm.client_state or algorithm.server_state or algorithm.scratch or algorithm.filled_scratch()
    minimum = float((weights - weights.to(torch.bfloat16)).norm()) / 4 if config.precision == "bfloat16" else 0.0
    if 0 < algorithm.radius < minimum:
        raise ConfigError(
            f"algorithm {name}: its perturbation has the norm {algorithm.radius:.2g}, which is lost where bfloat16 "
            f"rounds the weights of {config.model.name}; allowed: precision: float32, or a perturbation of norm 0 or "
            f"from {minimum:.2g} up"
        )
    if private and state:
        raise ConfigError(f"algorithm {name}: private coordinates exclude client, server and scratch vectors")
