"""Checks of an algorithm against a run description and its model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import STATE, check_state
from flatfed.errors import ConfigError


def check(algorithm: Algorithm, description: dict[str, Any], clients: int, private: int, initial: Tensor) -> None:
    """Refuse ``algorithm`` with ``private`` coordinates per client, ``clients`` clients, ``initial`` weights (size,).

    In bfloat16 the gradient at w + e is that at the rounded sum. A radius of the perturbation below the norm of this
    rounding would measure the rounding instead of the sharpness.

    :raises ConfigError: with the reason.
    """
    name, split = type(algorithm).__name__, description["split"]
    for kind in STATE:
        check_state(kind, getattr(algorithm, kind), f"algorithm {name}")
    if algorithm.central and clients > 1:
        raise ConfigError(f"algorithm {name} has all data at one place, but split {split!r} has {clients} clients")
    if algorithm.decentralised and "topology" not in description:
        raise ConfigError(f"algorithm {name} is decentralised, but split {split!r} has no topology")
    if algorithm.decentralised and algorithm.remembers:
        raise ConfigError(f"algorithm {name}: without a server no model is received that could be remembered")
    state = algorithm.client_state or algorithm.server_state or algorithm.scratch or algorithm.remembers
    if private and state:
        raise ConfigError(f"algorithm {name}: private coordinates go with no client, server or scratch vectors")
    rho, rounding = getattr(algorithm, "rho", 0), float((initial - initial.to(torch.bfloat16)).norm())
    if description["precision"] == "bfloat16" and 0 < rho < rounding:
        raise ConfigError(
            f"algorithm {name}: rho: {rho} is less than {rounding:.2g}, the norm by which precision: bfloat16 rounds "
            f"the initial weights of model {description['model']['name']}; allowed: precision: float32, rho: 0, or rho "
            f"from {rounding:.2g} up"
        )
