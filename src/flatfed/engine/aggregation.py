"""Aggregation: by a server, or by the nodes, which mix their models with their neighbours'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from flatfed.algorithms._context import Context
from flatfed.engine import hooks
from flatfed.engine.client_state import Vectors
from flatfed.engine.client_updates import ClientUpdates
from flatfed.engine.precision import full_precision
from flatfed.engine.resident import to_device
from flatfed.engine.simulation import Simulation
from flatfed.engine.topology import Topology
from flatfed.models import batch_norm


class ServerSimulation(Simulation):
    """Rounds with a server, which aggregates the uploads of the active clients."""

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        updates.add(uploads)

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> Vectors:
        server = {name: values.clone() for name, values in self.server.items()}
        aggregate = self.algorithm.aggregate
        ctx = replace(self.context(clients, {}), received=server["w"], server=server)
        with full_precision():
            changed = aggregate(ctx.server, updates.uploads, ctx)
        hooks.write(aggregate, changed, server, "server_state", model="w")
        updates.models = list(updates.uploads["w"])
        return server


class PeerSimulation(Simulation):
    """Rounds without a server; ``server["w"]`` is the mean of the nodes' models."""

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        self.topology = Topology(self.config.topology, self.client_count, self.seed)
        self.nodes = np.arange(self.client_count)
        models = self.state.store["model"]
        models[:] = self.weights.initial
        if self.buffers.numel():
            self.state.store["buffers"][:] = self.buffers
        self._write(self.algorithm.begin, models, self.state.store)
        self.server["w"].copy_(models.mean(dim=0, keepdim=True))

    def context(self, clients: np.ndarray, rows: Vectors) -> Context:
        return replace(super().context(clients, rows), received=rows["model"])

    def begin_round(self, clients: np.ndarray) -> ClientUpdates:
        """Return copies of the state of all nodes, whose models mix now if the algorithm mixes first."""
        rows = self.gather(self.nodes)
        links = self.mix(rows) if self.algorithm.mix_first else []
        return ClientUpdates(self.nodes, rows, clients, losses=self.server["w"].new_zeros(()), links=links)

    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        rows["model"].copy_(uploads["w"])
        if self.evaluates() and "nodes" in self.evaluate.sets:
            with self.clock.counted_as("evaluation"):
                updates.accuracies += self.evaluate.nodes(clients, uploads["w"], rows.get("buffers"))

    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> Vectors:
        models = updates.rows["model"]
        if self.algorithm.mix_first:
            updates.models = [models[client] for client in clients]
        else:
            if self.evaluates():  # mixing changes the trained models, so copy them
                updates.models = list(self.state.take(models, clients))
            updates.links = self.mix(updates.rows)
        return {"w": models.mean(dim=0, keepdim=True).to(self.device)}

    def mix(self, rows: Vectors) -> list[int]:
        """Mix the models of all nodes in their state ``rows``; return the number of links of each gossip step."""
        models, links = rows["model"], {}

        def mixing(step: int) -> Tensor:
            matrix = self.topology.mixing(self.round, step)
            weights = to_device(matrix, models.device, models.dtype)
            if "buffers" in rows and step not in links:
                rows["buffers"].copy_(batch_norm.rounded(weights @ rows["buffers"], self.weights.buffer_layout))
            links[step] = int(np.count_nonzero(matrix) - np.count_nonzero(matrix.diagonal()))
            return weights

        with full_precision():
            self._write(self.algorithm.mix, models, rows, mixing)
        return list(links.values())

    def _write(self, hook: Callable, models: Tensor, rows: Vectors, *arguments: Any) -> None:
        """Write what a ``hook`` on the ``models`` of all nodes returns to their state ``rows``."""
        ctx = self.context(self.nodes, rows)
        hooks.write(hook, hook(models, *arguments, ctx), ctx.client, "client_state", model="model")
