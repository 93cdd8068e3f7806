"""Aggregation: by a server, or by the nodes, which mix their models with their neighbours'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from flatfed.algorithms._context import Context
from flatfed.engine import hooks
from flatfed.engine.precision import full_precision
from flatfed.engine.resident import to_device
from flatfed.engine.simulation import ClientUpdates, Simulation, Vectors
from flatfed.engine.topology import Topology


class ServerSimulation(Simulation):
    """Rounds with a server, which aggregates the uploads of the active clients."""

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        updates.add(uploads)

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> None:
        aggregate, ctx = self.algorithm.aggregate, self.context(clients, {})
        with full_precision():
            changed = aggregate(ctx.server, updates.uploads, ctx)
        hooks.write(aggregate, changed, self.server, "server_state", model="w")
        updates.models = list(updates.uploads["w"])


class PeerSimulation(Simulation):
    """Rounds without a server; ``server["w"]`` is the mean of the nodes' models."""

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        self.topology = Topology(self.config.topology, self.client_count, self.seed)
        models = self.state.store["model"]
        models[:] = self.weights.initial
        self._write(self.algorithm.begin, self.algorithm.begin(models, self._context_of_all()))
        self.server["w"].copy_(models.mean(dim=0, keepdim=True))

    def context(self, clients: np.ndarray, rows: Vectors) -> Context:
        return replace(super().context(clients, rows), received=rows["model"])

    def run_clients(self, clients: np.ndarray) -> ClientUpdates:
        """Mix before training if the algorithm does; an exception in training then restores the mixed models."""
        if self.algorithm.mix_first and not self.mixed:
            self.mix()
            self.state.settle()
            self.mixed = True
        return super().run_clients(clients)

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        rows["model"].copy_(uploads["w"])
        if self.evaluates() and "nodes" in self.evaluate.sets:
            with self.clock.counted_as("evaluation"):
                updates.accuracies += self.evaluate.nodes(clients, uploads["w"])

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> None:
        mix_first, models = self.algorithm.mix_first, self.state.store["model"]
        self.state.irreversible()
        if self.evaluates():  # mixing changes the trained models, so copy them
            updates.models = [models[c] if mix_first else self.state.copy("model", c) for c in map(int, clients)]
        if not mix_first:
            self.mix()
        self.mixed = False
        self.server["w"].copy_(models.mean(dim=0, keepdim=True))

    def mix(self) -> None:
        """Mix the models and count the links of every gossip step."""
        models = self.state.store["model"]

        def mixing(step: int) -> Tensor:
            matrix = self.topology.mixing(self.round, step)
            self.cost.links(int(np.count_nonzero(matrix) - np.count_nonzero(matrix.diagonal())))
            return to_device(matrix, models.device, models.dtype)

        self.state.irreversible()
        with full_precision():
            changed = self.algorithm.mix(models, mixing, self._context_of_all())
        self._write(self.algorithm.mix, changed)

    def _write(self, hook: Callable, changed: Any) -> None:
        hooks.write(hook, changed, self.state.store, "client_state", model="model")

    def _context_of_all(self) -> Context:
        return self.context(np.arange(self.client_count), self.state.store)
