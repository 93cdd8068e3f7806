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
from flatfed.engine import able, batches, first_calls, fit
from flatfed.engine.client_state import ClientState, Received
from flatfed.engine.context import context_of
from flatfed.engine.cost import Cost
from flatfed.engine.evaluate import Evaluation
from flatfed.engine.executors import executor
from flatfed.engine.local import LocalTraining, Resident, placed
from flatfed.engine.precision import STATE, layers
from flatfed.engine.probe import Probe
from flatfed.engine.recording import Recording, recorder
from flatfed.engine.rounds import Rounds
from flatfed.engine.sampling import active_clients
from flatfed.engine.topology import Topology
from flatfed.engine.weights import Weights
from flatfed.errors import ConfigError


class Simulation(Rounds):
    """State of a run: the server's vectors, the clients' vectors, the round; everything else is a constant.

    ``server`` name -> (1, parameters); ``round`` finished rounds; ``mixed``: the coming round's mixing is done, where
    algorithms mix first; ``pending`` the line of a finished round that is yet to be evaluated; ``rows``: how many
    clients train at a time at most, as memory allowed so far, None for as many as the executor takes; ``whole``: the
    state is as of one moment, not half-way through an aggregation or a mixing; ``trial`` what was measured where the
    executor is picked by a :func:`~flatfed.engine.trial.trial`. ``description`` is a run description (see
    :func:`flatfed.engine.train.train`).
    """

    #: What a checkpoint stores beside vectors and counts.
    PROGRESS = ("round", "mixed", "pending", "probes", "seconds", "rows", "images", "trial")

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
        self.dtype = STATE[description["precision"]]
        self.device = device
        update = description["update"]
        self.algorithm = algorithm or algorithms.load(update["name"])(**update["params"])
        first_calls.watch(self.algorithm)

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
        self.counted = {"train": dataset.train, "test": dataset.test}
        self.members = np.split(partition.indices, partition.offsets[1:-1])
        evaluation = description["evaluation"]
        self.evaluate = Evaluation(
            self.model, self.layout, self.data, partition, evaluation["sets"], evaluation["batch_size"]
        )
        self.clients = len(self.members)
        self.sizes = np.diff(partition.offsets)
        steps = description.get("local_steps")
        self.schedule = batches.Schedule(description["batch_size"], description["local_epochs"], steps)

        shape = tuple(description["dataset"]["shape"])
        self.private = self.algorithm.private_size(shape)
        fit.check(self.algorithm, description, self.clients, self.private)
        if self.private:
            first_calls.check_transform(self.algorithm, self.weights.initial, shape, self.private)
        self.topology = None
        if self.algorithm.decentralised:
            self.topology = Topology(description["topology"], self.clients, self.seed)
        self.trial: dict[str, Any] | None = None
        self.use(executor_name)
        self._start(self.weights.initial)
        first_calls.check_evaluated(self.algorithm, self.server)
        self.probe = Probe(description["probe"], self) if "probe" in description else None

    def use(self, name: str) -> None:
        """Have the executor called ``name`` compute gradients; ConfigError if there is none, or it cannot here."""
        transform = self.algorithm.transform if self.private else None
        self.executor = executor(name, self.model, self.layout, transform)
        self.executor.layers = layers(self.description["precision"])
        if self.executor.recorded and self.data.images.device.type != self.device.type:
            gigabytes = self.data.images.nbytes / 1e9
            raise ConfigError(
                f"executor {name}: the images ({gigabytes:.1f} GB) lie in host memory, from which a recorded step "
                "cannot gather; use sequential, stacked or streams"
            )
        shape = tuple(self.description["dataset"]["shape"])
        able.check(self.executor, shape, self.private, self.dtype, self.device)
        self.local = LocalTraining(
            self.algorithm,
            self.executor,
            self.data,
            float(self.description["weight_decay"]),
            self.description["clip_norm"],
            Recording(recorder(self.device)) if self.executor.recorded else None,
        )

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
        self.round, self.mixed, self.whole = 0, False, True
        self.rows: int | None = None
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

    @property
    def images(self) -> int:
        """How many images are evaluated at a time."""
        return self.evaluate.batch_size

    @images.setter
    def images(self, count: int) -> None:
        self.evaluate.batch_size = count

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
        rate = torch.full((), lr, dtype=self.dtype, device=self.device)
        if self.probe is not None and self.probe.due():
            self._look(order, rate)
        began, aside = time.monotonic(), self.seconds["evaluation"]
        trained, loss_sum, step_sum, accuracies = self._trained(order, rate, wanted)
        line = {
            "round": self.round + 1,
            "learning_rate": lr,
            "train_loss": float(loss_sum) / step_sum if wanted else None,
            "clients": len(order),
        }
        if wanted:
            gap = torch.stack([(row.to(self.device) - self.server["w"][0]).square().sum() for row in trained])
            line["consistency"] = float(gap.mean())
        for name in dict.fromkeys(name for each in accuracies for name in each):
            line[name] = float(np.mean([each[name] for each in accuracies if name in each]))
        self.cost.round(self.sizes[order].tolist(), step_sum)
        self.round += 1
        self.wait()
        self.seconds["training"] += time.monotonic() - began - (self.seconds["evaluation"] - aside)
        return line

    def _look(self, order: np.ndarray, rate: Tensor) -> None:
        """Have the probe look at the model before the round of clients ``order``, once."""
        if self.probe is not None and not (self.probes and self.probes[-1]["round"] == self.round):
            self.probes.append(self.probe(order, rate))

    def _evaluated(self, line: dict[str, float]) -> dict[str, float]:
        """Add losses and accuracies of the model that tables show; return the line in the order of metrics.csv."""
        began, unseen = time.monotonic(), self.evaluate.unseen
        shown = next(iter(self.algorithm.evaluated(self.server).values()))[0]
        found = self.evaluate(shown)
        self.wait()
        self.seconds["evaluation"] += time.monotonic() - began
        found |= {name: value for name, value in line.items() if name.startswith("node_")}
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
