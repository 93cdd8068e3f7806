"""A federated run in memory: one call of :meth:`Simulation.advance` is one communication round.

What a round is, is said in :mod:`flatfed.engine.server` and, where there is none, in :mod:`flatfed.engine.peers`. What
makes it faster, what it needs of memory and what makes a process of it lie in folders of their own and wrap this.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import batches
from flatfed.engine.client_state import ClientState, Received
from flatfed.engine.context import Context, context_of
from flatfed.engine.counts import Cost
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.executors import Executor
from flatfed.engine.feed import Feed
from flatfed.engine.lines import ordered
from flatfed.engine.local import LocalTraining
from flatfed.engine.precision import STATE, layers
from flatfed.engine.probe import Probe
from flatfed.engine.resident import Resident
from flatfed.engine.sampling import active_clients
from flatfed.engine.topology import Topology
from flatfed.engine.weights import Weights


@dataclass
class Block:
    """Clients that have trained together: their models ``w`` (n, parameters), what else they ``sent``, by name, and
    the state of theirs, ``rows``, that is about to be written back; ``first`` the place of the first in the round."""

    first: int
    clients: np.ndarray
    w: Tensor
    sent: dict[str, Tensor]
    rows: dict[str, Tensor]


@dataclass
class Trained:
    """What there is to say of a round: the local models, the sum of first losses, of steps, and node by node the
    accuracies of its own model where these are evaluated."""

    losses: Tensor
    models: Iterable[Tensor] = ()
    steps: int = 0
    accuracies: list[dict[str, float]] = field(default_factory=list)


class Simulation(ABC):
    """State of a run: the server's vectors, the clients' vectors, the round; everything else is a constant.

    ``server`` name -> (1, parameters); ``round`` finished rounds; ``mixed``: the coming round's mixing is done, where
    algorithms mix first; ``pending`` the line of a finished round that is yet to be evaluated; ``rows``: how many
    clients train at a time at most, None for as many as the executor takes; ``whole``: the state is as of one moment,
    not half-way through an aggregation or a mixing; ``trial`` what was measured where the executor was picked so.

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
        steps = description.get("local_steps")
        self.schedule = batches.Schedule(description["batch_size"], description["local_epochs"], steps)
        self.private = algorithm.private_size(tuple(about["shape"]))
        self.use(executor)

        zero = torch.zeros(1, self.layout.size, dtype=self.dtype, device=device)
        self.server: dict[str, Tensor] = {"w": weights.initial[None].clone()}
        self.server.update({name: zero.clone() for name in algorithm.server_state})
        sizes = {name: self.layout.size for name in algorithm.client_state} | self.more_state()
        size = sum(sizes.values()) * self.clients * self.dtype.itemsize
        self.state = ClientState(sizes, self.clients, self.dtype, device, home(size))
        self.round, self.mixed, self.whole = 0, False, True
        self.rows: int | None = None
        self.pending: dict[str, Any] | None = None
        self.trial: dict[str, Any] | None = None
        self.cost = Cost(algorithm, self.schedule, weights.parameters * self.dtype.itemsize)
        self.probes: list[dict[str, Any]] = []
        self.seconds = {"training": 0.0, "evaluation": 0.0}
        self.begin()
        self.probe = Probe(description["probe"], self) if "probe" in description else None

    def use(self, executor: type[Executor]) -> None:
        """Have an executor of this kind compute gradients from now on."""
        transform = self.algorithm.transform if self.private else None
        self.executor = executor(self.model, self.layout, transform, layers(self.description["precision"]))
        decay, clip = float(self.description["weight_decay"]), self.description["clip_norm"]
        self.local = LocalTraining(self.algorithm, self.executor, Feed(self.data, self.model), decay, clip, self.pause)

    def more_state(self) -> dict[str, int]:
        """Return name -> length of what every client keeps beside the algorithm's own vectors."""
        return {"private": self.private} if self.private else {}

    @abstractmethod
    def begin(self) -> None:
        """Set what the round needs beside the state, before the first one."""

    @abstractmethod
    def train(self, order: np.ndarray, rate: Tensor, wanted: bool) -> Trained:
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
            line = self._round()
            if line["train_loss"] is None:
                return None
            self.pending = line
        if self.round == self.description["rounds"]:
            self._look(np.arange(0), torch.zeros(()))
        line = self._evaluated(self.pending)
        self.pending = None
        return line

    def _round(self) -> dict[str, float | None]:
        """Train and join; return the line of metrics.csv as far as it is known, its loss if it is wanted."""
        last = self.round + 1 == self.description["rounds"]
        wanted = last or (self.round + 1) % self.description["evaluation"]["every"] == 0
        order, lr = self.active(), self.learning_rate()
        rate = torch.full((), lr, dtype=self.dtype, device=self.device)
        if self.probe is not None and self.probe.due():
            self._look(order, rate)
        began, aside = time.monotonic(), self.seconds["evaluation"]
        try:
            found = self.train(order, rate, wanted)
        except BaseException:
            if self.whole:
                self.state.undo()
            raise
        line = {
            "round": self.round + 1,
            "learning_rate": lr,
            "train_loss": float(found.losses) / found.steps if wanted else None,
            "clients": len(order),
        }
        if wanted:
            gap = torch.stack([(row.to(self.device) - self.server["w"][0]).square().sum() for row in found.models])
            line["consistency"] = float(gap.mean())
        for name in dict.fromkeys(name for each in found.accuracies for name in each):
            line[name] = float(np.mean([each[name] for each in found.accuracies if name in each]))
        self.cost.round(self.sizes[order].tolist(), found.steps)
        self.round += 1
        self.wait()
        self.seconds["training"] += time.monotonic() - began - (self.seconds["evaluation"] - aside)
        return line

    def blocks(self, order: np.ndarray, rate: Tensor, found: Trained) -> Iterator[Block]:
        """Train the clients ``order``, as many at a time as there is room for; write back what they keep.

        Their losses and steps are added to ``found``. What stops the round before all have trained is undone.
        """
        size = self.block(len(order))
        at_once = 1 < size == len(order)  # the rows are a copy, written back when nothing stops the round any more
        for first in range(0, len(order), size):
            clients = order[first : first + size]
            plan = self.plan(clients)
            if not at_once:
                self.state.keep(clients)
            found.steps += int(plan.steps.sum())
            rows = self.state.gather(clients)
            w, ctx = self.open(clients, rate, rows)
            found.losses += self.local.train(w, plan, ctx).sum()
            sent = self.algorithm.finish(w, ctx)
            if self.private:
                rows["private"].copy_(w[:, self.layout.size :])
            yield Block(first, clients, w[:, : self.layout.size], sent, rows)
            if first + size >= len(order):
                self.pause()  # the last time: from here on the round goes to its end
                self.whole = False
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

    def wait(self) -> None:
        """Wait for the device, so that clocks measure work and not its submission."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _look(self, order: np.ndarray, rate: Tensor) -> None:
        """Have the probe look at the model before the round of clients ``order``, once."""
        if self.probe is not None and not (self.probes and self.probes[-1]["round"] == self.round):
            self.probes.append(self.probe(order, rate))

    def _evaluated(self, line: dict[str, float]) -> dict[str, float]:
        """Add losses and accuracies of the model that tables show; return the line in the order of metrics.csv."""
        began = time.monotonic()
        shown = next(iter(self.algorithm.evaluated(self.server).values()))[0]
        found = self.evaluate(shown)
        self.wait()
        self.seconds["evaluation"] += time.monotonic() - began
        counts = {f"{way}_bytes": self.cost.counts[way] for way in ("download", "upload")}
        return ordered({**found, **line, **counts, "seconds": round(self.seconds["training"], 3)}, self.evaluate.unseen)
