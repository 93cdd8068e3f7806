"""A federated run in memory: one call of :meth:`Simulation.advance` is one communication round."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import algorithms
from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine import batches, fit, interruption
from flatfed.engine.client_state import ClientState, Received
from flatfed.engine.context import Context, context_of
from flatfed.engine.cost import Cost
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.executors import executor
from flatfed.engine.local import LocalTraining, Resident, placed
from flatfed.engine.precision import full_precision
from flatfed.engine.probe import Probe
from flatfed.engine.recording import Recording, recorder
from flatfed.engine.sampling import active_clients
from flatfed.engine.topology import Topology
from flatfed.engine.weights import Weights

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Simulation:
    """State of a run: the server's vectors, the clients' vectors, the round; everything else is a constant.

    ``server`` name -> (1, parameters); ``round`` finished rounds; ``mixed``: the coming round's mixing is done, where
    algorithms mix first; ``pending`` the line of a finished round that is yet to be evaluated. ``description`` is a run
    description (see :func:`flatfed.engine.train.train`).
    """

    #: What a checkpoint stores beside vectors and counts.
    PROGRESS = ("round", "mixed", "pending", "probes", "seconds")

    def __init__(
        self,
        description: dict[str, Any],
        dataset: Dataset,
        partition: Partition,
        device: torch.device,
        executor_name: str,
        *,
        algorithm: algorithms.Algorithm | None = None,
        pretrained_file: str | os.PathLike[str] | None = None,
    ):
        self.description = description
        self.seed = int(description["seed"])
        self.dtype = DTYPES[description["precision"]]
        self.device = device
        update = description["update"]
        self.algorithm = algorithm or algorithms.load(update["name"])(**update["params"])

        self.weights = Weights(description, self.algorithm, device, self.dtype, pretrained_file)
        self.model, self.layout = self.weights.model, self.weights.layout

        self.data = Resident(
            placed(dataset.images, device),
            torch.from_numpy(np.asarray(dataset.labels)).to(device),
            torch.tensor(description["dataset"]["mean"], dtype=self.dtype, device=device),
            torch.tensor(description["dataset"]["std"], dtype=self.dtype, device=device),
            self.dtype,
            description["augmentation"],
        )
        self.members = np.split(partition.indices, partition.offsets[1:-1])
        evaluation = description["evaluation"]
        self.evaluate = Evaluation(
            self.model, self.layout, self.data, partition, evaluation["sets"], evaluation["batch_size"]
        )
        self.clients = len(self.members)
        self.sizes = np.diff(partition.offsets)
        steps = description.get("local_steps")
        self.schedule = batches.Schedule(description["batch_size"], description["local_epochs"], steps)

        self.private = self.algorithm.private_size(tuple(description["dataset"]["shape"]))
        fit.check(self.algorithm, description, self.clients, self.private)
        self.topology = None
        if self.algorithm.decentralised:
            self.topology = Topology(description["topology"], self.clients, self.seed)
        transform = self.algorithm.transform if self.private else None
        self.executor = executor(executor_name, self.model, self.layout, transform)
        self.local = LocalTraining(
            self.algorithm,
            self.executor,
            self.data,
            self.seed,
            float(description["weight_decay"]),
            description["clip_norm"],
            Recording(recorder(device)) if self.executor.recorded else None,
        )
        self._start(self.weights.initial)
        self.probe = Probe(description["probe"], self) if "probe" in description else None

    def _start(self, initial: Tensor) -> None:
        """Set the state before the first round: common ``initial`` weights, all other vectors zero."""
        zero = torch.zeros(1, self.layout.size, dtype=self.dtype, device=self.device)
        self.server: dict[str, Tensor] = {"w": initial[None].clone()}
        self.server.update({name: zero.clone() for name in self.algorithm.server_state})
        sizes = {name: self.layout.size for name in self.algorithm.client_state}
        if self.private:
            sizes["private"] = self.private
        if self.algorithm.decentralised:
            sizes["model"] = self.layout.size
        self.state = ClientState(sizes, self.clients, self.dtype, self.device)
        self.received = None
        if self.algorithm.remembers:
            self.received = Received(self.clients, self.layout.size, self.dtype, self.device)
        self.round, self.mixed = 0, False
        self.pending: dict[str, Any] | None = None
        self.cost = Cost(self.algorithm, self.schedule, self.weights.parameters * self.dtype.itemsize)
        self.probes: list[dict[str, Any]] = []
        self.seconds = {"training": 0.0, "evaluation": 0.0}
        if self.algorithm.decentralised:
            nodes = self.state.store["model"]
            nodes[:] = initial
            everybody = np.arange(self.clients)
            self.algorithm.begin(nodes, context_of(self, everybody, torch.zeros(()), self._all_state()))
            self.server["w"].copy_(nodes.mean(dim=0, keepdim=True))

    def learning_rate(self) -> float:
        """Learning rate of the coming round: eta_0 gamma^t, constant within a round."""
        return self.description["learning_rate"] * self.description["learning_rate_decay"] ** self.round

    def advance(self) -> dict[str, float] | None:
        """Run one round; return its line of metrics.csv where the protocol evaluates, else None.

        Raises Stopped where a signal asks for it. The state is then that before the round's training, or after it and
        before its evaluation, and the next call goes on from there.
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
        """Train, aggregate or mix; return the line of metrics.csv as far as it is known, its loss if it is wanted."""
        last = self.round + 1 == self.description["rounds"]
        wanted = last or (self.round + 1) % self.description["evaluation"]["every"] == 0
        lr = self.learning_rate()
        active = active_clients(self.description["sampling"], self.clients, self.seed, self.round)
        order = batches.by_length(active, self.sizes, self.schedule)
        rate = torch.tensor(lr, dtype=self.dtype, device=self.device)
        if self.probe is not None and self.probe.due():
            self._look(order, rate)
        began = time.monotonic()
        try:
            trained, loss_sum, step_sum = self._train(order, rate)
        except interruption.Stopped:
            self.state.undo()
            raise
        line = {
            "round": self.round + 1,
            "learning_rate": lr,
            "train_loss": float(loss_sum) / step_sum if wanted else None,
            "clients": len(order),
        }
        if wanted:
            gap = torch.stack([(row - self.server["w"][0]).square().sum() for row in trained])
            line["consistency"] = float(gap.mean())
        self.cost.round(self.sizes[order].tolist(), step_sum)
        self.round += 1
        self._wait()
        self.seconds["training"] += time.monotonic() - began
        return line

    def _look(self, order: np.ndarray, rate: Tensor) -> None:
        """Have the probe look at the model before the round of clients ``order``, once."""
        if self.probe is not None and not (self.probes and self.probes[-1]["round"] == self.round):
            self.probes.append(self.probe(order, rate))

    def _train(self, order: np.ndarray, rate: Tensor) -> tuple[Tensor, Tensor, int]:
        """Local training in blocks, then aggregation or mixing; return local models, sum of losses, sum of steps."""
        n, algorithm = len(order), self.algorithm
        everybody = np.arange(self.clients)
        if algorithm.decentralised and algorithm.mix_first and not self.mixed:
            self._mix(rate)
            self.mixed = True
            self.state.settle(everybody)  # all models have moved: a stop in local training goes back to here
        uploads: dict[str, Tensor] = {}
        loss_sum = torch.zeros((), dtype=self.dtype, device=self.device)
        step_sum = 0
        size = self.executor.block or n
        for first in range(0, n, size):
            part = order[first : first + size]
            rows = slice(first, first + len(part))
            plan = self.plan(part)
            if len(part) < n or n == 1:  # else the rows are a copy, written back when nothing stops the round any more
                self.state.keep(part)
            step_sum += int(plan.steps.sum())
            sent, losses = self._train_block(part, plan, rate)
            loss_sum += losses
            for name, values in sent.items():
                if name not in uploads:
                    uploads[name] = torch.empty(n, values.shape[1], dtype=self.dtype, device=self.device)
                uploads[name][rows] = values
        interruption.check()  # the last time: from here on the round goes to its end
        # Mixing moves every model, also of clients that did not train.
        self.state.settle(everybody if algorithm.decentralised else order)
        self.mixed = False
        if algorithm.decentralised:
            if not algorithm.mix_first:
                self._mix(rate)
            self.server["w"].copy_(self.state.store["model"].mean(dim=0, keepdim=True))
        else:
            if self.received is not None:
                self.received.record(order, self.round, self.server["w"])
            with full_precision():
                algorithm.aggregate(self.server, uploads, context_of(self, order, rate, None))
        return uploads["w"], loss_sum, step_sum

    def plan(self, clients: np.ndarray) -> batches.RoundPlan:
        """Return which images ``clients``, sorted by length, see in the coming round."""
        augmented = self.data.scheme != "none"
        return batches.plan(
            clients, self.members, self.schedule, seed=self.seed, round_=self.round, augmented=augmented
        )

    def _mix(self, rate: Tensor) -> None:
        """Let the algorithm mix all clients' models; count the links that every gossip step uses."""
        models = self.state.store["model"]

        def mixing(step: int) -> Tensor:
            matrix = self.topology.mixing(self.round, step)
            links = int(np.count_nonzero(matrix) - np.count_nonzero(matrix.diagonal()))
            self.cost.links(links)
            return torch.from_numpy(matrix).to(models)

        with full_precision():
            self.algorithm.mix(models, mixing, context_of(self, np.arange(self.clients), rate, self._all_state()))

    def _all_state(self) -> dict[str, Tensor]:
        """Return the state of all clients, name -> (clients, parameters), as it lies in the store."""
        return {name: self.state.store[name] for name in self.algorithm.client_state}

    def _train_block(self, clients: np.ndarray, plan: batches.RoundPlan, rate: Tensor) -> tuple[dict, Tensor]:
        """Train one block of rows from the received model; return what it uploads and the sum of first losses."""
        rows = self.state.gather(clients)
        w, ctx = self.open(clients, rate, rows)
        losses = self.local.train(w, plan, ctx)
        sent = self.algorithm.finish(w, ctx)
        model = w[:, : self.layout.size]
        if self.private:
            rows["private"].copy_(w[:, self.layout.size :])
        if self.algorithm.decentralised:
            rows["model"].copy_(model)
        self.state.scatter(clients, rows)
        return {"w": model, **sent}, losses

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

    def _evaluated(self, line: dict[str, float]) -> dict[str, float]:
        """Add losses and accuracies of the model that tables show; return the line in the order of metrics.csv."""
        began, unseen = time.monotonic(), self.evaluate.unseen
        shown = next(iter(self.algorithm.evaluated(self.server).values()))[0]
        found = self.evaluate(shown)
        self._wait()
        self.seconds["evaluation"] += time.monotonic() - began
        return {
            "round": line["round"],
            "learning_rate": line["learning_rate"],
            "train_loss": line["train_loss"],
            **{name: found.pop(name) for name in (f"{unseen}_loss", f"{unseen}_accuracy")},
            "clients": line["clients"],
            "consistency": line["consistency"],
            "download_bytes": self.cost.counts["download"],
            "upload_bytes": self.cost.counts["upload"],
            "seconds": round(self.seconds["training"], 3),
            **found,
        }

    def _wait(self) -> None:
        """Wait for the device, so that clocks measure work and not its submission."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
