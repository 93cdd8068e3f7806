"""A federated run in memory: one call of :meth:`Simulation.advance` is one communication round.

From which models clients begin, and how what they have learnt is joined, is in :mod:`flatfed.engine.server` or, without
a server, in :mod:`flatfed.engine.peers`. The folders ``speed``, ``memory``, ``checks`` and ``job`` wrap all this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import batches, lines
from flatfed.engine.client_state import ClientState, Received
from flatfed.engine.clock import Clock
from flatfed.engine.context import Context, context_of
from flatfed.engine.counts import Cost
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.executors import Executor
from flatfed.engine.feed import Feed
from flatfed.engine.lines import RoundTraining
from flatfed.engine.local import LocalTraining
from flatfed.engine.precision import STATE, layers
from flatfed.engine.probe import Probe
from flatfed.engine.resident import Resident
from flatfed.engine.sampling import active_clients
from flatfed.engine.topology import Topology
from flatfed.engine.weights import Weights


@dataclass
class Block:
    """Clients that have trained together, the first of which is number ``first`` of the round's.

    ``w`` (n, parameters) their models; ``sent`` what else they send, by name; ``rows`` their state, about to be stored.
    """

    first: int
    clients: np.ndarray
    w: Tensor
    sent: dict[str, Tensor]
    rows: dict[str, Tensor]


class Simulation(ABC):
    """State of a run: the server's vectors, the clients' vectors, the round; everything else is a constant.

    ``server`` name -> (1, parameters); ``round`` finished rounds; ``mixed``: the coming round's mixing is done, where
    algorithms mix first; ``pending`` the line of a finished round that is yet to be evaluated; ``rows``: how many
    clients train at a time at most, None for as many as the executor takes; ``halfway``: a round has begun to change
    what cannot be undone, and the state is of no one moment.

    ``description`` is a run description; ``home`` says where so many bytes of client state are to lie (see
    :class:`~flatfed.engine.client_state.ClientState`); ``pause`` is called wherever the run can stop and lose nothing,
    and may raise.
    """

    #: What every client received last, where an algorithm remembers it; a round with a server fills it.
    last_received: Received | None = None
    #: Who exchanges models with whom, where there is no server.
    topology: Topology | None = None

    def __init__(
        self,
        description: dict[str, Any],
        dataset: Dataset,
        partition: Partition,
        device: torch.device,
        algorithm: algorithms.Algorithm,
        weights: Weights,
        executor: type[Executor],
        home: Callable[[int], str] = lambda size: "device",
        pause: Callable[[], None] = lambda: None,
    ):
        self.description, self.device, self.algorithm, self.weights = description, device, algorithm, weights
        self.seed = int(description["seed"])
        self.dtype = STATE[description["precision"]]
        self.home, self.pause = home, pause
        self.model, self.layout = weights.model, weights.layout
        about, evaluation = description["dataset"], description["evaluation"]
        self.data = Resident.of(dataset, about, description["augmentation"], device, self.dtype)
        self.counted = {"train": dataset.train, "test": dataset.test}
        self.members = np.split(partition.indices, partition.offsets[1:-1])
        self.clients, self.sizes = len(self.members), np.diff(partition.offsets)
        sets, together = evaluation["sets"], evaluation["batch_size"]
        self.evaluate = Evaluation(self.model, self.layout, self.data, partition, sets, together, pause)
        self.schedule = batches.Schedule.of(description)
        self.private = algorithm.private_size(tuple(about["shape"]))
        transform = algorithm.transform if self.private else None
        self.executor = executor(self.model, self.layout, transform, layers(description["precision"]))
        decay, clip = float(description["weight_decay"]), description["clip_norm"]
        self.local = LocalTraining(algorithm, self.executor, Feed(self.data, self.model), decay, clip, pause)

        zero = torch.zeros(1, self.layout.size, dtype=self.dtype, device=device)
        self.server: dict[str, Tensor] = {"w": weights.initial[None].clone()}
        self.server.update({name: zero.clone() for name in algorithm.server_state})
        sizes = {name: self.layout.size for name in algorithm.client_state} | self.more_state()
        size = sum(sizes.values()) * self.clients * self.dtype.itemsize
        self.state = ClientState(sizes, self.clients, self.dtype, device, home(size))
        self.round, self.mixed, self.halfway = 0, False, False
        self.rows: int | None = None
        self.pending: dict[str, Any] | None = None
        self.cost = Cost(algorithm, self.schedule, weights.parameters * self.dtype.itemsize)
        self.clock = Clock(device)
        self.begin()
        self.probes: list[dict[str, Any]] = []
        self.probe = Probe(description["probe"], self) if "probe" in description else None

    def more_state(self) -> dict[str, int]:
        """Return name -> length of what every client keeps beside the algorithm's own vectors."""
        return {"private": self.private} if self.private else {}

    @abstractmethod
    def begin(self) -> None:
        """Set what rounds need beside the state, before the first one."""

    @abstractmethod
    def train(self, order: np.ndarray, rate: Tensor, wanted: bool) -> RoundTraining:
        """Train the clients ``order`` of the coming round at the learning ``rate`` and join what they have learnt.

        ``wanted``: the round is evaluated. What stops it before it joins anything leaves nothing of it.
        """

    @abstractmethod
    def received(self, clients: np.ndarray, rows: dict[str, Tensor], ctx: Context) -> Tensor:
        """Return the models (n, parameters) that ``clients`` begin with, and set what of them is in the context."""

    def learning_rate(self) -> float:
        """Learning rate of the coming round: eta_0 gamma^t, constant within a round."""
        return self.description["learning_rate"] * self.description["learning_rate_decay"] ** self.round

    def active(self) -> np.ndarray:
        """Return the clients of the coming round, those with most steps first."""
        chosen = active_clients(self.description["sampling"], self.clients, self.seed, self.round)
        return batches.by_length(chosen, self.sizes, self.schedule)

    def block(self, n: int) -> int:
        """Return how many of a round's ``n`` clients train at a time."""
        return min(self.executor.block or n, self.rows or n, n)

    def advance(self) -> dict[str, float] | None:
        """Run one round; return its line of metrics.csv where the protocol evaluates, else None.

        What is raised by ``pause`` leaves the state as before the round's training, or as after it and before its
        evaluation; the next call goes on from there.
        """
        if self.pending is None:
            self.pending = self._round()
            if self.pending is None:
                return None
        if self.probe is not None and self.round == self.description["rounds"]:
            self.probe.look()
        line = lines.evaluated(self, self.pending)
        self.pending = None
        return line

    def _round(self) -> dict[str, float] | None:
        """Train and join; return what is known of the line of metrics.csv, None where the round is not evaluated."""
        last = self.round + 1 == self.description["rounds"]
        wanted = last or (self.round + 1) % self.description["evaluation"]["every"] == 0
        order = self.active()
        rate = torch.full((), self.learning_rate(), dtype=self.dtype, device=self.device)
        if self.probe is not None and self.probe.due():
            self.probe.look(order, rate)
        with self.clock.counted_as("training"):
            try:
                trained = self.train(order, rate, wanted)
            except BaseException:
                if not self.halfway:
                    self.state.undo()
                raise
            line = lines.before_evaluation(self, len(order), trained) if wanted else None
        self.cost.round(self.sizes[order].tolist(), trained.steps)
        self.round += 1
        self.halfway = False
        return line

    def blocks(self, order: np.ndarray, rate: Tensor, trained: RoundTraining) -> Iterator[Block]:
        """Train the clients ``order``, as many at a time as there is room for; write back what they keep.

        Their losses and steps are added to ``trained``. What stops the round before all have trained is undone.
        """
        size = self.block(len(order))
        at_once = 1 < size == len(order)  # the rows are a copy, written back when nothing stops the round any more
        for first in range(0, len(order), size):
            clients = order[first : first + size]
            plan = self.plan(clients)
            if not at_once:
                self.state.keep(clients)
            trained.steps += int(plan.steps.sum())
            rows = self.state.gather(clients)
            w, ctx = self.open(clients, rate, rows)
            trained.losses += self.local.train(w, plan, ctx).sum()
            sent = self.algorithm.finish(w, ctx)
            if self.private:
                rows["private"].copy_(w[:, self.layout.size :])
            yield Block(first, clients, w[:, : self.layout.size], sent, rows)
            if first + size >= len(order):
                self.pause()  # the last time: from here on the round goes to its end
                self.halfway = True
            self.state.scatter(clients, rows)

    def plan(self, clients: np.ndarray) -> batches.RoundPlan:
        """Return which images ``clients``, sorted by length, see in the coming round."""
        keyed = {"seed": self.seed, "round_": self.round, "masks": len(self.model.dropout)}
        return batches.plan(clients, self.members, self.schedule, augmented=self.data.scheme != "none", **keyed)

    def open(self, clients: np.ndarray, rate: Tensor, rows: dict[str, Tensor]) -> tuple[Tensor, Context]:
        """Return models (n, parameters) that ``clients`` begin a round with, and their context on state ``rows``."""
        ctx = context_of(self, clients, rate, rows, scratch=True)
        received = self.received(clients, rows, ctx)
        w = torch.cat([received, rows["private"]] if self.private else [received], dim=1)
        self.algorithm.start(w, ctx)
        return w, ctx
