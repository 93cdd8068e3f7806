"""Rounds without a server: every client keeps a model of its own, and mixes it with its neighbours'."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.context import Context, context_of
from flatfed.engine.lines import RoundTraining
from flatfed.engine.precision import full_precision
from flatfed.engine.simulation import Simulation
from flatfed.engine.topology import Topology
from flatfed.engine.transfer import sent


class PeerSimulation(Simulation):
    """A run without a server; ``server["w"]`` is the mean of the nodes' models, which nobody has."""

    def more_state(self) -> dict[str, int]:
        """Every node keeps its model."""
        return {**super().more_state(), "model": self.layout.size}

    def begin(self) -> None:
        """All nodes begin with the same model."""
        self.topology = Topology(self.description["topology"], self.clients, self.seed)
        models = self.state.store["model"]
        models[:] = self.weights.initial
        everybody = np.arange(self.clients)
        self.algorithm.begin(models, context_of(self, everybody, torch.zeros(()), self._state()))
        self.server["w"].copy_(models.mean(dim=0, keepdim=True))

    def received(self, clients: np.ndarray, rows: dict[str, Tensor], ctx: Context) -> Tensor:
        """Return the own model of each of ``clients``."""
        ctx.w = rows["model"]
        return rows["model"]

    def train(self, order: np.ndarray, rate: Tensor, wanted: bool) -> RoundTraining:
        """Train the nodes ``order`` from their own models and mix all nodes' models, or mix and then train.

        Nodes are evaluated before anything of the round stands, so that a stop there goes back to before the round.
        Their trained models are copied only where they are ``wanted`` and mixing will move them.
        """
        first = self.algorithm.mix_first
        if first and not self.mixed:
            self.mix(rate)
            self.state.settle(np.arange(self.clients))  # a stop in local training goes back to here
            self.mixed, self.halfway = True, False
        trained = RoundTraining(torch.zeros((), dtype=self.dtype, device=self.device))
        for block in self.blocks(order, rate, trained):
            block.rows["model"].copy_(block.w)
            if wanted and "nodes" in self.evaluate.sets:
                with self.clock.counted_as("evaluation"):
                    trained.accuracies += self.evaluate.nodes(block.clients, block.w)
        self.mixed = False
        self.state.settle(np.arange(self.clients))  # mixing moves also the models of nodes that did not train
        if wanted:
            models = self.state.store["model"]
            trained.models = [models[c] if first else self.state.copy("model", c) for c in map(int, order)]
        if not first:
            self.mix(rate)
        self.server["w"].copy_(self.state.store["model"].mean(dim=0, keepdim=True))
        return trained

    def mix(self, rate: Tensor) -> None:
        """Let the algorithm mix all nodes' models; count the links that every gossip step uses."""
        models, everybody = self.state.store["model"], np.arange(self.clients)

        def mixing(step: int) -> Tensor:
            matrix = self.topology.mixing(self.round, step)
            self.cost.links(int(np.count_nonzero(matrix) - np.count_nonzero(matrix.diagonal())))
            return sent(matrix, models.device, models.dtype)

        self.halfway = True
        with full_precision():
            self.algorithm.mix(models, mixing, context_of(self, everybody, rate, self._state()))

    def _state(self) -> dict[str, Any]:
        """Return the state of all clients, name -> (clients, parameters), as it lies in the store."""
        return {name: self.state.store[name] for name in self.algorithm.client_state}
