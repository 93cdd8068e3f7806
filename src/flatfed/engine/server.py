"""Rounds with a server, which aggregates the uploads of the active clients."""

from __future__ import annotations

import numpy as np

from flatfed.engine.precision import full_precision
from flatfed.engine.simulation import ClientUpdates, Simulation, Vectors


class ServerSimulation(Simulation):
    """Rounds with a server."""

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        updates.add(uploads)

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> None:
        with full_precision():
            self.algorithm.aggregate(self.server, updates.uploads, self.context(clients, {}))
        updates.models = list(updates.uploads["w"])
