"""Mixing matrices of decentralised training: symmetric, doubly stochastic, W[i, j] > 0 only between neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flatfed.errors import ConfigError, unknown


def _ring(clients: int) -> np.ndarray:
    """Every node with its two neighbours."""
    near = np.eye(clients, k=1) + np.eye(clients, k=-1)
    near[0, -1] = near[-1, 0] = 1
    return near


def _full(clients: int) -> np.ndarray:
    """Every node with every other."""
    return np.ones((clients, clients)) - np.eye(clients)


GRAPHS: dict[str, Callable[[int], np.ndarray]] = {"ring": _ring, "full": _full}


def mixing_matrix(name: str, clients: int) -> np.ndarray:
    """Return W (clients, clients) float64 with weights 1 / (degree + 1) on the regular graph ``name``.

    DFedSAM (Definition 4.1) asks for symmetric, doubly stochastic weights and states none; on a regular graph these are
    also the Metropolis weights. Raises ConfigError for an unknown graph or fewer than three clients.
    """
    if name not in GRAPHS:
        raise ConfigError(unknown("topology", name, GRAPHS, "topology"))
    if clients < 3:
        raise ConfigError(f"topology {name}: needs at least 3 clients, not {clients}")
    graph = GRAPHS[name](clients)
    return (graph + np.eye(clients)) / (graph.sum(axis=1, keepdims=True) + 1)
