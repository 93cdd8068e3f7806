"""Rounds with a server: it sends its model to the active clients and aggregates their uploads."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from flatfed.engine.precision import full_precision
from flatfed.engine.simulation import ClientUpdates, Simulation


class ServerSimulation(Simulation):
    """A run with a server."""

    def receive(
        self,
        updates: ClientUpdates,
        first: int,
        clients: np.ndarray,
        uploads: dict[str, Tensor],
        rows: dict[str, Tensor],
    ) -> None:
        """Keep the uploads until aggregation."""
        updates.add(first, uploads)

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> None:
        """Move the server's vectors."""
        with full_precision():
            self.algorithm.aggregate(self.server, updates.uploads, self.context(clients, {}))
        updates.models = list(updates.uploads["w"])
