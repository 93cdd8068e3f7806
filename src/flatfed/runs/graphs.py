"""The graphs of decentralised training by name, and which numbers of clients they fit. Pure Python."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from flatfed.errors import ConfigError

STATIC = ("ring", "grid", "exponential", "full")
VARYING = ("clique", "neighbours", "regular")  # a new graph every round; they need a number of neighbours
GRAPHS = (*STATIC, *VARYING)


def check(spec: dict[str, Any], clients: int, where: str) -> None:
    """Refuse a topology that ``clients`` nodes cannot have; messages begin with ``where``."""
    graph, n = spec["graph"], spec.get("neighbours")
    if (n is None) != (graph in STATIC):
        needs = "takes no neighbours" if graph in STATIC else "needs neighbours, how many clients one averages with"
        raise ConfigError(f"{where}: {graph} {needs}; {', '.join(VARYING)} have them")
    fewest = 2 if graph == "full" else 3
    if clients < fewest:
        raise ConfigError(f"{where}: {graph} needs at least {fewest} clients, not {clients}")
    if graph == "grid" and torus(clients)[0] < 3:
        fit = [m for m in range(9, 2 * clients + 9) if torus(m)[0] >= 3]
        near = sorted(sorted(fit, key=lambda m: abs(m - clients))[:2])
        wanted = f"a product of two numbers from 3 up, such as {near[0]} or {near[1]}, not {clients}"
        raise ConfigError(f"{where}: grid (a torus) needs a number of clients that is {wanted}")
    least, most = 1 if graph == "neighbours" else 2, clients if graph == "clique" else clients - 1
    if n is not None and not least <= n <= most:
        raise ConfigError(f"{where}: {graph} of {n} of {clients} clients is not possible; {least} to {most}")
    if graph == "regular" and n * clients % 2:
        raise ConfigError(f"{where}: regular: {n} neighbours times {clients} clients must be even")


def check_steps(spec: dict[str, Any], clients: int, steps: int, where: str) -> None:
    """Refuse more gossip steps a round than disjoint cliques can be drawn for."""
    if spec["graph"] == "clique" and steps * spec["neighbours"] > clients:
        allowed = f"{clients} clients allow at most {clients // spec['neighbours']}"
        raise ConfigError(f"{where}: {steps} gossip steps need disjoint cliques of {spec['neighbours']}; {allowed}")


def torus(clients: int) -> tuple[int, int]:
    """Return (a, b) with a b = ``clients``, a <= b as near as can be."""
    a = next(a for a in range(math.isqrt(clients), 0, -1) if clients % a == 0)
    return a, clients // a


def spectral_gap(spec: dict[str, Any], clients: int) -> float | None:
    """Return 1 - |lambda_2| of a fixed graph's mixing matrix in closed form; None for one that changes with time.

    Rings, exponential and full graphs are circulant, a torus is a product of two rings, so that the eigenvalues are
    sums of cosines over the hops to the neighbours.
    """
    graph = spec["graph"]
    if graph in VARYING:
        return None
    if graph == "grid":
        sides, hops = torus(clients), ({1, -1}, {1, -1})
    else:
        far = {"ring": [1], "full": range(1, clients)}.get(graph, [1 << k for k in range((clients - 1).bit_length())])
        sides, hops = (clients,), ({hop % clients for hop in far} | {-hop % clients for hop in far},)
    sums = []
    for m, near in zip(sides, hops, strict=True):
        sums.append([sum(math.cos(2 * math.pi * j * hop / m) for hop in near) for j in range(m)])
    degree = sum(map(len, hops))
    values = sorted(abs(1 + sum(terms)) / (degree + 1) for terms in product(*sums))
    return 1 - values[-2]
