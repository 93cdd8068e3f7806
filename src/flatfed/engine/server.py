"""Rounds with a server: it sends its model to the active clients, and aggregates what they send back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flatfed.engine.client_state import Received
from flatfed.engine.context import Context, context_of
from flatfed.engine.lines import RoundTraining
from flatfed.engine.precision import full_precision
from flatfed.engine.simulation import Simulation


class ServerSimulation(Simulation):
    """A run with a server."""

    def begin(self) -> None:
        """Before the first round no client has received anything."""
        if self.algorithm.remembers:
            size = self.clients * self.layout.size * self.dtype.itemsize
            self.last_received = Received(self.clients, self.device, self.home(size))

    def received(self, clients: np.ndarray, rows: dict[str, Tensor], ctx: Context) -> Tensor:
        """Return the server's model for each of ``clients``."""
        if self.last_received is not None:
            ctx.previous, ctx.participated = self.last_received.gather(clients, self.server["w"])
        return self.server["w"].expand(len(clients), -1)

    def train(self, order: np.ndarray, rate: Tensor, wanted: bool) -> RoundTraining:
        """Train the clients ``order`` from the server's model and aggregate: the server's vectors move."""
        trained = RoundTraining(torch.zeros((), dtype=self.dtype, device=self.device))
        uploads: dict[str, Tensor] = {}
        for block in self.blocks(order, rate, trained):
            for name, values in {"w": block.w, **block.sent}.items():
                if len(values) == len(order):
                    uploads[name] = values
                    continue
                if name not in uploads:
                    uploads[name] = torch.empty(len(order), values.shape[1], dtype=self.dtype, device=self.device)
                uploads[name][block.first : block.first + len(values)] = values
        self.state.settle(order)
        if self.last_received is not None:
            self.last_received.record(order, self.round, self.server["w"])
        with full_precision():
            self.algorithm.aggregate(self.server, uploads, context_of(self, order, rate, None))
        trained.models = uploads["w"]
        return trained
