"""What cannot be trained: an algorithm and a run description that do not go together."""

from __future__ import annotations

from typing import Any

from flatfed.algorithms import Algorithm
from flatfed.algorithms._base import STATE, check_state
from flatfed.errors import ConfigError


def check(algorithm: Algorithm, description: dict[str, Any], clients: int, private: int) -> None:
    """Refuse ``algorithm`` with ``private`` coordinates a client on ``clients`` clients; ConfigError says why not."""
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
