"""A run in training: :meth:`Simulation.advance` runs one communication round."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms._context import Context
from flatfed.data.partition import Partition
from flatfed.data.streams import stream
from flatfed.engine import batches, hooks
from flatfed.engine.client_state import ClientState, Received, Vectors
from flatfed.engine.client_updates import ClientUpdates
from flatfed.engine.costs import Clock, Cost
from flatfed.engine.evaluate import Evaluation, Score
from flatfed.engine.executors import Batch, Executor
from flatfed.engine.local_update import MOMENTUM, LocalUpdate
from flatfed.engine.resident import to_device
from flatfed.engine.topology import Topology
from flatfed.engine.weights import Weights
from flatfed.models import batch_norm
from flatfed.runs.run_config import RunConfig


class Simulation(ABC):
    """A run in training.

    ``server``: name -> (1, parameters). ``state``: the clients' vectors. ``buffers`` (1, size): those of BatchNorm in
    the evaluated model. ``round``: number of finished rounds. ``pending``: the metrics of a finished round before its
    evaluation. ``home``: returns the memory for a number of bytes of client state.
    """

    topology: Topology | None = None

    def __init__(
        self,
        config: RunConfig,
        partition: Partition,
        weights: Weights,
        local_update: LocalUpdate,
        home: Callable[[int], str],
    ):
        plain = local_update.plain
        self.config, self.weights, self.local_update = config, weights, local_update
        self.algorithm, self.executor, self.data, self.local = plain.algorithm, plain.executor, plain.data, plain.local
        self.device, self.dtype = weights.initial.device, weights.initial.dtype
        self.seed = config.seed
        self.model, self.layout, self.buffers = weights.model, weights.layout, weights.buffers
        self.members = np.split(partition.indices, partition.offsets[1:-1])
        self.client_count, self.sizes = len(self.members), np.diff(partition.offsets)
        score = Score(weights.evaluated, self.layout, self.data, config.evaluation.batch_size, plain.pause)
        self.evaluate = Evaluation(score, partition, config.evaluation.sets)
        self.schedule = batches.Schedule(config.batch_size, config.local_epochs, config.local_steps)

        self.server: Vectors = {"w": weights.initial[None].clone()}
        self.server |= {name: torch.zeros_like(self.server["w"]) for name in self.algorithm.server_state}
        self.server |= {name: self.server["w"].new_zeros(1, 1) for name in self.algorithm.server_scalars}
        sizes = {name: self.layout.size for name in self.algorithm.client_state}
        if self.local is not None:
            sizes["local"] = len(self.local)
        if self.algorithm.decentralised:
            sizes["model"] = self.layout.size
            sizes |= {"buffers": self.buffers.numel()} if self.buffers.numel() else {}
        row_size = sum(sizes.values()) + self.layout.size * self.algorithm.remembers
        memory = home(row_size * self.client_count * self.dtype.itemsize)
        received = Received(self.client_count, self.device, memory) if self.algorithm.remembers else None
        self.state = ClientState(sizes, self.client_count, self.dtype, self.device, memory, received)
        if self.local is not None:
            self.state.store["local"][:] = weights.initial[self.local]
        self.round = 0
        self.planned: tuple[int, np.ndarray, batches.RoundPlan | None] = -1, np.empty(0), None
        self.pending: dict[str, float] | None = None
        size = weights.count(weights.full.matching(self.algorithm.local)) * self.dtype.itemsize
        self.cost = Cost(self.algorithm, self.schedule, size, self.buffers.nbytes)
        self.clock = Clock(self.device)

    def advance(self) -> dict[str, float] | None:
        """Run one round; return its line of metrics.csv, or None for a round without evaluation.

        An exception in steps 1 to 3 leaves the state of the last round, because they work on copies until
        :meth:`commit`. After an exception in step 4 the next call evaluates.
        """
        if self.pending is None:
            # 1. Sample clients.
            clients = self.sample()
            with self.clock.counted_as("training"):
                # 2. Train locally.
                updates = self.run_clients(clients)
                # 3. Aggregate.
                server = self.aggregate(clients, updates)
                self.plan_ahead()
                line = self.line(updates, server["w"]) if self.evaluates() else None
                self.clock.wait()  # report errors of the device before the round counts
                self.commit(clients, updates, server)
                self.pending = line
            del updates, server  # the evaluation needs memory, too
        # 4. Evaluate.
        if self.pending is None:
            return None
        line = self.evaluated(self.pending)
        self.pending = None
        return line

    def sample(self, ahead: int = 0) -> np.ndarray:
        """Return the clients of the round that is ``ahead``, those with most local steps first."""
        clients = batches.active_clients(self.config.sampling, self.client_count, self.seed, self.round + ahead)
        return batches.longest_first(clients, self.sizes, self.schedule)

    def run_clients(self, clients: np.ndarray) -> ClientUpdates:
        updates, size = self.begin_round(clients), self.block(len(clients))
        for start in range(0, len(clients), size):
            block = clients[start : start + size]
            with self.state.on_device(updates.rows, updates.index[start : start + size]) as rows:
                plan = self.plan(block)
                w, ctx = self.begin_clients(block, rows)
                updates.losses += self.local_update.run(w, plan, ctx).sum()
                updates.steps += int(plan.steps.sum())
                if self.local is not None:
                    rows["local"].copy_(w[:, self.local])
                uploads = hooks.finish(self.algorithm, w, ctx)
                self.collect(updates, block, uploads, rows)
        return updates

    def begin_round(self, clients: np.ndarray) -> ClientUpdates:
        """Return copies of the state that a round of ``clients`` changes, without results."""
        rows, index = self.gather(clients), np.arange(len(clients))
        return ClientUpdates(clients, rows, index, losses=self.server["w"].new_zeros(()))

    def gather(self, clients: np.ndarray) -> Vectors:
        """Return copies of the state of ``clients``, and the "buffers" of BatchNorm from which they start."""
        rows = self.state.gather(clients)
        if self.buffers.numel() and "buffers" not in rows:
            rows["buffers"] = self.buffers.repeat(len(clients), 1).to(self.state.memory)
        return rows

    def begin_clients(self, clients: np.ndarray, rows: Vectors) -> tuple[Tensor, Context]:
        """Return the initial models (n, parameters) of ``clients`` and their context."""
        ctx = self.context(clients, rows)
        w = ctx.received.expand(len(clients), -1).clone()
        if self.local is not None:
            w[:, self.local] = rows["local"]
            ctx = replace(ctx, received=w.clone())
        size = len(clients), self.layout.size
        names = (*self.algorithm.scratch, *((MOMENTUM,) if self.config.momentum else ()))
        scratch = {name: torch.zeros(size, dtype=self.dtype, device=self.device) for name in names}
        if self.state.received is not None:
            scratch["previous"] = self.state.received.gather(clients, ctx.received)
        if self.algorithm.full_passes:
            members = [to_device(self.members[client], self.device) for client in clients]
            scratch["full_gradient"] = self.full_gradient(w, members)
        ctx = replace(ctx, scratch=scratch)
        hooks.write(self.algorithm.start, self.algorithm.start(w, ctx), ctx.scratch, "scratch")
        return w, ctx

    def full_gradient(self, w: Tensor, members: list[Tensor], executor: Executor | None = None) -> Tensor:
        """Return the gradients (rows, parameters) of the mean loss on the images ``members``, (n_i,) per row.

        Without augmentation and dropout; ``executor`` replaces the run's. BatchNorm sees batches of the training's size
        and keeps its buffers.
        """
        data, gradients = self.data, torch.zeros_like(w)
        size = self.config.batch_size if batch_norm.layers(self.model) else self.config.evaluation.batch_size
        for row, images in enumerate(members):
            for part in images.split(size):
                self.local_update.plain.pause()
                weights = torch.full((1, len(part)), 1 / len(images), dtype=data.dtype, device=w.device)
                batch = Batch(data.batch(part)[None], data.labels[part][None], weights, [])
                batch.buffers = self.buffers.clone() if self.buffers.numel() else None
                gradients[row] += (executor or self.executor)(w[row : row + 1], batch)[1][0]
        return gradients

    @abstractmethod
    def collect(self, updates: ClientUpdates, clients: np.ndarray, uploads: Vectors, rows: Vectors) -> None:
        """Add the ``uploads`` of ``clients`` to ``updates``, or write them to their state ``rows``."""

    @abstractmethod
    def aggregate(self, clients: np.ndarray, updates: ClientUpdates) -> Vectors:
        """Return the server's new vectors, from the ``updates`` of ``clients``."""

    def commit(self, clients: np.ndarray, updates: ClientUpdates, server: Vectors) -> None:
        """Store the results of a round of ``clients``, and the server's vectors after it."""
        # Before the first write, because an error leaves the state of the last round.
        mean = batch_norm.mean_buffers(updates.rows.get("buffers", self.buffers), self.weights.buffer_layout)
        if self.state.received is not None:
            self.state.received.record(clients, self.round, self.server["w"])
        self.state.commit(updates.owners, updates.rows)
        for name, values in server.items():
            self.server[name].copy_(values)
        self.buffers.copy_(mean)
        self.cost.round(self.sizes[clients].tolist(), updates.steps)
        for count in updates.links:
            self.cost.links(count)
        self.round += 1

    def context(self, clients: np.ndarray, rows: Vectors) -> Context:
        """Return the context of ``clients`` with state ``rows``, name -> (n, size)."""

        def column(values: list[float]) -> Tensor:
            return to_device(torch.tensor(values, dtype=self.dtype), self.device)[:, None]

        round_ = self.round

        def uniform(draw: int, shape: tuple[int, ...]) -> Tensor:
            draws = [stream(self.seed, "algorithm", round_, int(c), draw).random(shape) for c in clients]
            return to_device(np.stack(draws), self.device, self.dtype)

        return Context(
            received=self.server["w"],
            server=self.server,
            client={name: values for name, values in rows.items() if name != "buffers"},
            scratch={},
            lr=torch.full((), self.learning_rate(), dtype=self.dtype, device=self.device),
            step=self.server["w"].new_zeros(()) if self.algorithm.counts_steps else None,
            steps=column([self.schedule.count(count) for count in self.sizes[clients].tolist()]),
            nominal_steps=column([self.schedule.nominal(int(self.sizes[0]))] * len(clients)),
            round=round_,
            rounds=self.config.rounds,
            client_count=self.client_count,
            layout=self.layout,
            uniform=uniform,
            _buffers=rows.get("buffers"),
        )

    def line(self, updates: ClientUpdates, w: Tensor) -> dict[str, float]:
        """Return the columns of metrics.csv that the round's ``updates`` and its new model ``w`` (1, size) determine.

        ``consistency`` is (1/n) sum_i ||w_i - w^{t+1}||^2 over the local models.
        """
        gaps = [(row.to(self.device) - w[0]).square().sum() for row in updates.models]
        line = {
            "round": self.round + 1,
            "learning_rate": self.learning_rate(),
            "train_loss": float(updates.losses) / updates.steps,
            "clients": updates.participants,
            "consistency": float(torch.stack(gaps).mean()),
        }
        for name in dict.fromkeys(name for accuracy in updates.accuracies for name in accuracy):
            line[name] = float(np.mean([accuracy[name] for accuracy in updates.accuracies if name in accuracy]))
        return line

    def evaluated(self, line: dict[str, float]) -> dict[str, float]:
        """Return ``line`` with losses and accuracies of the model that tables show."""
        with self.clock.counted_as("evaluation"):
            shown = next(iter(self.algorithm.evaluated(self.server).values()))[0]
            scores = self.evaluate(shown)
        traffic = {f"{direction}_bytes": self.cost.counts[direction] for direction in ("download", "upload")}
        values = {**scores, **line, **traffic, "seconds": round(self.clock.seconds["training"], 3)}
        return {name: values[name] for name in self.evaluate.columns} | values

    def learning_rate(self) -> float:
        """Return the learning rate of the coming round."""
        first, schedule = self.config.learning_rate, self.config.learning_rate_schedule
        if schedule is None:
            return first * self.config.learning_rate_decay**self.round
        if schedule.kind == "step":
            return first * schedule.factor ** sum(self.round >= milestone for milestone in schedule.milestones)
        share = (1 + math.cos(math.pi * self.round / self.config.rounds)) / 2
        return schedule.final_learning_rate + (first - schedule.final_learning_rate) * share

    def evaluates(self) -> bool:
        number = self.round + 1
        return number == self.config.rounds or number % self.config.evaluation.every == 0

    def plan(self, clients: np.ndarray, ahead: int = 0) -> batches.RoundPlan:
        """Return the plan of ``clients`` in the round that is ``ahead``."""
        round_, planned_clients, plan = self.planned
        if round_ == self.round + ahead and np.array_equal(clients, planned_clients):
            return plan
        keyed = {"seed": self.seed, "round_": self.round + ahead, "masks": len(self.model.dropout)}
        return batches.plan(clients, self.members, self.schedule, augmentation=self.data.scheme, **keyed)

    def plan_ahead(self) -> None:
        """Make the plan of the next round, if its clients train together: meanwhile, a GPU still trains this round."""
        if self.round + 1 == self.config.rounds:
            return
        clients = self.sample(ahead=1)
        if self.block(len(clients)) == len(clients):
            self.planned = self.round + 1, clients, self.plan(clients, ahead=1)

    def block(self, n: int) -> int:
        """Return how many of ``n`` clients train at a time."""
        return min(n, self.config.rows or n) if self.executor.together else 1

    def progress(self) -> dict[str, Any]:
        """Return all that a resumed run needs besides its vectors, as JSON."""
        attributes = {name: getattr(self, name) for name in ("round", "pending")}
        return {**attributes, "seconds": self.clock.seconds, "counts": self.cost.counts}

    def resume(self, progress: dict[str, Any]) -> None:
        """Continue after :meth:`progress`."""
        self.round, self.pending = progress["round"], progress["pending"]
        self.clock.seconds.update(progress["seconds"])
        self.cost.counts.update(progress["counts"])
