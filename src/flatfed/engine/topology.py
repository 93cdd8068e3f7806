"""Topologies of decentralised training and their mixing matrices.

W[i, j] > 0 only between neighbours and on the diagonal; rows sum to one. Weights are 1 / (degree + 1): DFedSAM
(Definition 4.1) requires symmetric weights and states none. On a regular graph these are the Metropolis weights.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from flatfed.data.streams import sequence, stream
from flatfed.runs.graphs import STATIC, check, check_steps, torus
from flatfed.runs.run_config import TopologySettings

DRAWS = 100  # rounds in the expectation of a time-varying topology's spectral gap


class Topology:
    """A graph on ``clients`` nodes, fixed or drawn in every round with the key (seed, round).

    Graphs of ``spec`` (the last three with ``neighbours`` n):

    - ring; grid: a torus as square as possible; exponential: 2^k hops in both directions (one direction, as in Ying et
      al. 2021, is not symmetric); full.
    - clique: n random clients average; each gossip step of a round has n other clients. Of three readings of DFedSAM
      appendix B.4, only this one mixes as little as its Table 1 shows.
    - neighbours: every client averages with n random others, not symmetric (the code of DisPFL).
    - regular: a random graph in which every client has n neighbours.

    :raises ConfigError: an unknown graph, or one that does not fit the number of clients.
    """

    def __init__(self, spec: TopologySettings, clients: int, seed: int):
        check(clients, "topology", spec.graph, spec.neighbours)
        self.graph, self.neighbours, self.clients, self.seed = spec.graph, spec.neighbours, clients, seed
        self._fixed = _weights(_adjacency(self.graph, clients)) if self.graph in STATIC else None

    def mixing(self, round_: int, step: int = 0) -> np.ndarray:
        """Return W (clients, clients) float64 of gossip step ``step`` in round ``round_``, both from 0.

        :raises ConfigError: too few clients for a clique.
        """
        if self._fixed is not None:
            return self._fixed
        near = np.zeros((self.clients, self.clients))
        if self.graph == "clique":
            check_steps(self.clients, step + 1, "topology", self.graph, self.neighbours)
            order = stream(self.seed, "topology", round_, 0).permutation(self.clients)
            members = order[step * self.neighbours : (step + 1) * self.neighbours]
            near[np.ix_(members, members)] = 1
            np.fill_diagonal(near, 0)
        elif self.graph == "neighbours":
            generator = stream(self.seed, "topology", round_, step)
            for client in range(self.clients):
                others = generator.choice(self.clients - 1, self.neighbours, replace=False)
                near[client, others + (others >= client)] = 1
        else:
            import networkx

            seed = int(sequence(self.seed, "topology", round_, step).generate_state(1)[0])
            graph = networkx.random_regular_graph(self.neighbours, self.clients, seed=seed)
            near = networkx.to_numpy_array(graph, nodelist=range(self.clients))
        return _weights(near)

    @cached_property
    def spectral_gap(self) -> float:
        """1 - lambda: one gossip step multiplies the distance from the mean by at most lambda.

        lambda^2 is the largest eigenvalue of E[W' W] - 11'/m; for time-varying graphs E is over the first 100 rounds.
        """
        rounds = 1 if self._fixed is not None else DRAWS
        product = sum(w.T @ w for w in map(self.mixing, range(rounds))) / rounds
        largest = float(np.linalg.eigvalsh(product - 1 / self.clients)[-1])
        return 1 - math.sqrt(max(0.0, largest))


def _adjacency(graph: str, clients: int) -> np.ndarray:
    import networkx

    networks = {
        "ring": lambda: networkx.cycle_graph(clients),
        "grid": lambda: networkx.grid_2d_graph(*torus(clients), periodic=True),
        "exponential": lambda: networkx.circulant_graph(clients, [1 << k for k in range((clients - 1).bit_length())]),
        "full": lambda: networkx.complete_graph(clients),
    }
    return networkx.to_numpy_array(networks[graph]())


def _weights(near: np.ndarray) -> np.ndarray:
    """Return 1 / (degree + 1) for neighbours and the node itself."""
    return (near + np.eye(len(near))) / (near.sum(axis=1, keepdims=True) + 1)
