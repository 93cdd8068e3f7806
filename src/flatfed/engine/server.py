"""Rounds with a server, which aggregates the uploads of the active clients."""

from __future__ import annotations

import numpy as np

from flatfed.engine import hooks
from flatfed.engine.precision import full_precision
from flatfed.engine.simulation import ClientUpdates, Simulation, Vectors


class ServerSimulation(Simulation):
    """Rounds with a server."""

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        updates.add(uploads)

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> None:
        aggregate, ctx = self.algorithm.aggregate, self.context(clients, {})
        with full_precision():
            changed = aggregate(ctx.server, updates.uploads, ctx)
        hooks.write(aggregate, changed, self.server, "server_state")
        if "w" not in changed:
            hooks.refuse(aggregate, sorted(changed), "the next model 'w' among the server's vectors")
        updates.models = list(updates.uploads["w"])
