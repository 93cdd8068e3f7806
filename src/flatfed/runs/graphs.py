"""Graphs of decentralised training, and the numbers of clients that they allow."""

from __future__ import annotations

import math

from flatfed.errors import ConfigError

STATIC = ("ring", "grid", "exponential", "full")
VARYING = ("clique", "neighbours", "regular")  # a new graph every round; they need a number of neighbours
GRAPHS = (*STATIC, *VARYING)


def check(clients: int, where: str, graph: str, neighbours: int | None = None) -> None:
    """Refuse a topology that does not fit the number of ``clients``."""
    if (neighbours is None) != (graph in STATIC):
        needs = "takes no neighbours" if graph in STATIC else "needs neighbours, the number of clients that average"
        raise ConfigError(f"{where}: {graph} {needs}; only {', '.join(VARYING)} have them")
    fewest = 2 if graph == "full" else 3
    if clients < fewest:
        raise ConfigError(f"{where}: {graph} needs at least {fewest} clients, not {clients}")
    if graph == "grid" and torus(clients)[0] < 3:
        fit = [m for m in range(9, 2 * clients + 9) if torus(m)[0] >= 3]
        near = sorted(sorted(fit, key=lambda m: abs(m - clients))[:2])
        allowed = f"a product of two numbers from 3 up, such as {near[0]} or {near[1]}, not {clients}"
        raise ConfigError(f"{where}: grid (a torus) needs a number of clients that is {allowed}")
    least, most = 1 if graph == "neighbours" else 2, clients if graph == "clique" else clients - 1
    if neighbours is not None and not least <= neighbours <= most:
        raise ConfigError(f"{where}: {graph} of {neighbours} of {clients} clients is not possible; {least} to {most}")
    if graph == "regular" and neighbours * clients % 2:
        raise ConfigError(f"{where}: regular: {neighbours} neighbours times {clients} clients must be even")


def check_steps(clients: int, steps: int, where: str, graph: str, neighbours: int | None = None) -> None:
    """Refuse more gossip steps a round than there are disjoint cliques."""
    if graph == "clique" and steps * neighbours > clients:
        allowed = f"{clients} clients allow at most {clients // neighbours}"
        raise ConfigError(f"{where}: {steps} gossip steps need disjoint cliques of {neighbours}; {allowed}")


def torus(clients: int) -> tuple[int, int]:
    """Return the most equal (a, b) with a b = ``clients`` and a <= b."""
    a = next(a for a in range(math.isqrt(clients), 0, -1) if clients % a == 0)
    return a, clients // a
