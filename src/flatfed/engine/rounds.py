"""One round of a simulation: local training in blocks of clients, then aggregation or mixing."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.engine import batches, interruption, shortage
from flatfed.engine.client_state import ClientState, Received
from flatfed.engine.context import Context, context_of
from flatfed.engine.cost import Cost
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.executors import Executor
from flatfed.engine.layout import Layout
from flatfed.engine.local import LocalTraining, Resident
from flatfed.engine.precision import full_precision
from flatfed.engine.topology import Topology
from flatfed.engine.transfer import sent


class Rounds:
    """What a :class:`~flatfed.engine.simulation.Simulation`, whose attributes these are, does in a round."""

    seed: int
    round: int
    clients: int
    rows: int | None
    private: int
    mixed: bool
    whole: bool
    dtype: torch.dtype
    device: torch.device
    algorithm: algorithms.Algorithm
    executor: Executor
    layout: Layout
    schedule: batches.Schedule
    members: list[np.ndarray]
    data: Resident
    local: LocalTraining
    evaluate: Evaluation
    seconds: dict[str, float]
    server: dict[str, Tensor]
    state: ClientState
    received: Received | None
    topology: Topology | None
    cost: Cost

    def _trained(
        self, order: np.ndarray, rate: Tensor, wanted: bool
    ) -> tuple[Iterable[Tensor], Tensor, int, list[float]]:
        """Train until memory lasts for it; what stops a round, or has it begin again, leaves nothing of it."""
        while True:
            try:
                return self._train(order, rate, wanted)
            except (interruption.Stopped, shortage.Shortage):
                self.state.undo()
                raise
            except (RuntimeError, MemoryError) as error:
                if not (self.whole and shortage.is_shortage(error)):
                    raise
                self.state.undo()
                more = shortage.asked(error)
            # Here and not above: while an error is handled, it holds on to what was computed so far.
            shortage.spare(self, self.block(len(order)), more)

    def block(self, n: int) -> int:
        """Return how many of a round's ``n`` clients train at a time."""
        return min(self.executor.block or n, self.rows or n, n)

    def _train(
        self, order: np.ndarray, rate: Tensor, wanted: bool
    ) -> tuple[Iterable[Tensor], Tensor, int, list[dict[str, float]]]:
        """Local training in blocks, then aggregation or mixing; return what there is to say of it.

        That is the local models, the sum of losses, the sum of steps and, where the round is ``wanted`` for evaluation
        and nodes are evaluated, the accuracies of every node's own model on its own images. Without a server the local
        models are the store's own, copied only where they are ``wanted`` and mixing will move them. Nodes are evaluated
        before anything of the round stands, so that a stop there goes back to before the round.
        """
        n, algorithm = len(order), self.algorithm
        everybody = np.arange(self.clients)
        if algorithm.decentralised and algorithm.mix_first and not self.mixed:
            self.whole = False
            self._mix(rate)
            self.whole = self.mixed = True
            self.state.settle(everybody)  # all models have moved: a stop in local training goes back to here
        uploads: dict[str, Tensor] = {}
        loss_sum = torch.zeros((), dtype=self.dtype, device=self.device)
        step_sum, accuracies = 0, []
        each = wanted and algorithm.decentralised and "nodes" in self.evaluate.sets
        size = self.block(n)
        for first in range(0, n, size):
            part = order[first : first + size]
            plan = self.plan(part)
            if size < n or n == 1:  # else the rows are a copy, written back when nothing stops the round any more
                self.state.keep(part)
            step_sum += int(plan.steps.sum())
            sent, rows, losses = self._train_block(part, plan, rate)
            loss_sum += losses.sum()
            if each:
                accuracies += self._evaluated_nodes(part, rows["model"])
            if size == n:
                uploads = sent
                break
            self.state.scatter(part, rows)
            for name, values in sent.items():
                if not (algorithm.decentralised and name == "w"):
                    if name not in uploads:
                        uploads[name] = torch.empty(n, values.shape[1], dtype=self.dtype, device=self.device)
                    uploads[name][first : first + len(part)] = values
        interruption.check()  # the last time: from here on the round goes to its end
        self.whole = False
        if size == n:
            self.state.scatter(order, rows)
        # Mixing moves every model, also of clients that did not train.
        self.state.settle(everybody if algorithm.decentralised else order)
        self.mixed = False
        trained: Iterable[Tensor] = uploads.get("w", ())
        if algorithm.decentralised:
            if "w" not in uploads and wanted:
                models = self.state.store["model"]
                trained = [models[c] if algorithm.mix_first else self.state.copy("model", c) for c in map(int, order)]
            if not algorithm.mix_first:
                self._mix(rate)
            self.server["w"].copy_(self.state.store["model"].mean(dim=0, keepdim=True))
        else:
            if self.received is not None:
                self.received.record(order, self.round, self.server["w"])
            with full_precision():
                algorithm.aggregate(self.server, uploads, context_of(self, order, rate, None))
        self.whole = True
        return trained, loss_sum, step_sum, accuracies

    def _evaluated_nodes(self, nodes: np.ndarray, models: Tensor) -> list[dict[str, float]]:
        """Return the accuracies of each node's own model, as trained, on its own images; count it as evaluation."""
        self.wait()
        began = time.monotonic()
        found = self.evaluate.nodes(nodes, models)
        self.seconds["evaluation"] += time.monotonic() - began
        return found

    def wait(self) -> None:
        """Wait for the device, so that clocks measure work and not its submission."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def plan(self, clients: np.ndarray) -> batches.RoundPlan:
        """Return which images ``clients``, sorted by length, see in the coming round."""
        return batches.plan(
            clients,
            self.members,
            self.schedule,
            seed=self.seed,
            round_=self.round,
            augmented=self.data.scheme != "none",
            masks=len(self.model.dropout),
        )

    def _mix(self, rate: Tensor) -> None:
        """Let the algorithm mix all clients' models; count the links that every gossip step uses."""
        models = self.state.store["model"]

        def mixing(step: int) -> Tensor:
            matrix = self.topology.mixing(self.round, step)
            links = int(np.count_nonzero(matrix) - np.count_nonzero(matrix.diagonal()))
            self.cost.links(links)
            return sent(matrix, models.device, models.dtype)

        with full_precision():
            self.algorithm.mix(models, mixing, context_of(self, np.arange(self.clients), rate, self._all_state()))

    def _all_state(self) -> dict[str, Tensor]:
        """Return the state of all clients, name -> (clients, parameters), as it lies in the store."""
        return {name: self.state.store[name] for name in self.algorithm.client_state}

    def _train_block(self, clients: np.ndarray, plan: batches.RoundPlan, rate: Tensor) -> tuple[dict, dict, Tensor]:
        """Train one block of rows; return what it uploads, its clients' new state and the sum of first losses."""
        rows = self.state.gather(clients)
        w, ctx = self.open(clients, rate, rows)
        losses = self.local.train(w, plan, ctx)
        sent = self.algorithm.finish(w, ctx)
        model = w[:, : self.layout.size]
        if self.private:
            rows["private"].copy_(w[:, self.layout.size :])
        if self.algorithm.decentralised:
            rows["model"].copy_(model)
        return {"w": model, **sent}, rows, losses

    def open(self, clients: np.ndarray, rate: Tensor, rows: dict[str, Tensor]) -> tuple[Tensor, Context]:
        """Return models (n, parameters) that ``clients`` begin a round with, and their context on state ``rows``."""
        ctx = context_of(self, clients, rate, rows, scratch=True)
        if self.received is not None:
            ctx.previous, ctx.participated = self.received.gather(clients, self.server["w"])
        received = rows["model"] if self.algorithm.decentralised else self.server["w"].expand(len(clients), -1)
        w = torch.cat([received, rows["private"]] if self.private else [received], dim=1)
        ctx.w = received if self.algorithm.decentralised else self.server["w"]
        self.algorithm.start(w, ctx)
        return w, ctx
