"""Checks of an algorithm against its run."""

from __future__ import annotations

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import VECTOR_KINDS, check_state
from flatfed.errors import ConfigError
from flatfed.runs.run_config import RunConfig


def check(algorithm: Algorithm, config: RunConfig, clients: int, private: int) -> None:
    """Refuse ``algorithm`` with ``private`` coordinates per client and ``clients`` clients."""
    name, split = type(algorithm).__name__, config.split
    for kind in VECTOR_KINDS:
        check_state(kind, getattr(algorithm, kind), f"algorithm {name}")
    if algorithm.central and clients > 1:
        raise ConfigError(f"algorithm {name} needs all data on one client, but split {split!r} has {clients} clients")
    if algorithm.decentralised and config.topology is None:
        raise ConfigError(f"algorithm {name} is decentralised, but split {split!r} has no topology")
    if algorithm.decentralised and algorithm.remembers:
        raise ConfigError(f"algorithm {name}: without a server, clients receive no model to remember")
    state = algorithm.client_state or algorithm.server_state or algorithm.scratch or algorithm.filled_scratch()
    if private and state:
        raise ConfigError(f"algorithm {name}: private coordinates exclude client, server and scratch vectors")
