"""What every algorithm declares about its cost, against what its hooks really do in a run: counted, not believed.

Counted are gradients (calls of the executor), what clients read of the server's vectors and of their own state, what
they send, and the links of the topology.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from test_second_implementation import CASES

from flatfed import algorithms
from flatfed.engine.sampling import active_clients
from harness import SIZES, description, needs, simulation, sizes, write_problem
from repository import ROOT
from samples import sampled

TOPOLOGIES = [{"graph": "ring"}, {"graph": "clique", "neighbours": 2}]
HOOKS = ("start", "second_model", "perturbation", "correct", "update", "finish", "mix")  # what runs at a client


class Reads(dict):
    """A dictionary that notes which of its keys were read, but for ``scalars``."""

    def __init__(self, values: dict, seen: set[str], scalars: tuple[str, ...] = ()):
        super().__init__(values)
        self.seen, self.scalars = seen, scalars

    def __getitem__(self, name):
        if name not in self.scalars:
            self.seen.add(name)
        return super().__getitem__(name)


class Watched:
    """A context that notes what of the server, of the client and of the past a hook reads."""

    def __init__(self, ctx, count: Counted):
        self._ctx, self._count = ctx, count

    def __getattr__(self, name):
        value = getattr(self._ctx, name)
        if name in ("server", "client"):
            scalars = self._count.run.algorithm.server_scalars if name == "server" else ()
            return Reads(value, self._count.seen[name], scalars)
        if name == "scratch" and "previous" in value:
            self._count.remembered = True
        return value


class Counted:
    """A run whose hooks and gradients are counted.

    ``seen`` names of the vectors read by clients; ``remembered`` whether the last received model was; ``gradients`` of
    mini-batches and ``full`` (images) in full passes; ``sent`` coordinates sent by clients; ``trained`` clients by
    round; ``mixes`` gossip steps.
    """

    def __init__(self, folder: Path, name: str, params: dict, executor: str = "stacked", **changes):
        write_problem(folder, sizes(name))
        self.spec = description(name, params, **{**needs(name), "rounds": 3, **changes})
        run = self.run = simulation(folder, self.spec, executor)
        self.seen, self.remembered = {"server": set(), "client": set()}, False
        self.gradients, self.second_models, self.full, self.sent, self.mixes = 0, 0, [], 0, 0
        for hook in HOOKS:
            setattr(run.algorithm, hook, self.watched(getattr(run.algorithm, hook), hook))
        self.compute, run.local_update.losses_and_gradients = run.local_update.losses_and_gradients, self.gradient
        self.full_gradient, run.full_gradient = run.full_gradient, self.full_pass
        if run.topology is not None:
            self.mixing, run.topology.mixing = run.topology.mixing, self.mix
        self.trained = [run.advance()["clients"] for _ in range(3)]

    def watched(self, hook, name):
        def watched(*arguments):
            *others, ctx = arguments
            found = hook(*others, Watched(ctx, self))
            if name == "finish":
                uploads = {"w": others[0][:, : self.run.layout.size], **found[1]}
                self.sent += sum(value.numel() for value in uploads.values())
            return found

        return watched

    def gradient(self, w, batch):
        self.gradients += len(w)
        self.second_models += 0 if batch.second is None else len(w)
        return self.compute(w, batch)

    def full_pass(self, w, members):
        self.full += [len(images) for images in members]
        return self.full_gradient(w, members)

    def mix(self, round_, step=0):
        self.mixes += 1
        return self.mixing(round_, step)

    def active(self) -> list[int]:
        """Return the sizes of the clients that took part, round by round."""
        run = self.run
        rounds = (active_clients(run.config.sampling, run.client_count, run.seed, round_) for round_ in range(3))
        return [len(run.members[client]) for clients in rounds for client in clients]

    @property
    def steps(self) -> int:
        """Local steps of all clients."""
        spec = self.spec
        if "local_steps" in spec:
            return spec["local_steps"] * sum(self.trained)
        return sum(spec["local_epochs"] * -(-size // spec["batch_size"]) for size in self.active())


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked"], ["stacked"]))
@pytest.mark.parametrize("name", algorithms.names())
def test_gradients_are_as_many_as_declared(tmp_path, name, executor):
    found = Counted(tmp_path, name, {}, executor)
    kind, counts = algorithms.load(name), found.run.cost.counts
    assert counts["local_steps"] == found.steps > 0
    assert found.gradients == kind.gradients_per_step * found.steps
    assert found.second_models == kind.forward_passes * found.steps
    assert sorted(found.full) == sorted(found.active() * kind.full_passes)
    batches = sum(-(-size // found.spec["batch_size"]) for size in found.full)
    assert counts["gradient_evaluations"] == found.gradients + batches


@pytest.mark.parametrize(("name", "params"), CASES)
def test_downloads_uploads_and_stored_vectors_are_as_declared(tmp_path, name, params):
    """Down: the model and the server's vectors that clients read. Up: the model and what ``finish`` returns.

    Stored are the model, and beside it every vector of its size that a client's hooks read: its own, remembered,
    downloaded.
    """
    found = Counted(tmp_path, name, params)
    run, algorithm, count = found.run, found.run.algorithm, sum(found.trained)
    assert found.seen["client"] == set(algorithm.client_state)
    assert found.remembered == algorithm.remembers == (run.state.received is not None)
    stored = 1 + len(found.seen["client"]) + found.remembered + len(found.seen["server"])
    assert algorithm.stored_vectors() == stored
    down, up = algorithm.communication
    if run.topology is not None:
        assert not found.seen["server"] and down == up
        return
    if algorithm.central:
        assert not found.seen["server"] and run.cost.counts["download"] == run.cost.counts["upload"] == down == up == 0
        return
    assert 1 + len(found.seen["server"]) == down
    assert found.sent == up * count * run.layout.size
    size = run.weights.parameters * 8
    assert (run.cost.counts["download"], run.cost.counts["upload"]) == (down * count * size, up * count * size)


@pytest.mark.parametrize(("name", "params"), [case for case in CASES if algorithms.load(case[0]).decentralised])
@pytest.mark.parametrize("topology", sampled(TOPOLOGIES, TOPOLOGIES[1:]))
def test_links_are_those_of_every_gossip_step(tmp_path, name, params, topology):
    """A ring of six has twelve directed links; a clique of two has two. DisPFL sends its share of the weights."""
    found = Counted(tmp_path, name, params, topology=topology)
    algorithm = found.run.algorithm
    assert found.mixes == 3 * algorithm.gossip_steps
    links = found.mixes * (12 if topology["graph"] == "ring" else 2)
    size = found.run.weights.parameters * 8
    assert algorithm.communication == ((algorithm.density,) * 2 if name == "dispfl" else (1, 1))
    for way, share in zip(("download", "upload"), algorithm.communication, strict=True):
        assert found.run.cost.counts[way] == pytest.approx(share * links * size, abs=links)


@pytest.mark.parametrize("density", [0.3, 0.5, 0.7])
def test_dispfl_sends_its_density(tmp_path, density):
    """The declared share of the weights, but for the fractions of weights that layers round down, and no other.

    Sent are the weights as trained, under the mask before; the new mask is not.
    """
    found = Counted(tmp_path, "dispfl", {"density": density}).run
    shared, model = found.state.store["shared"], found.state.store["model"]
    assert not model[shared == 0].any() and model[found.state.store["mask"] == 0].any()
    wanted, layers = density * found.layout.size, len(found.layout.sizes)
    assert (shared.sum(dim=1) <= wanted).all() and (shared.sum(dim=1) > wanted - layers).all()


@pytest.mark.parametrize("name", algorithms.names())
def test_state_that_is_declared_is_written(tmp_path, name):
    """No vector is carried along for nothing, at a client or at the server (D-PSGD empties its own in mixing)."""
    run = Counted(tmp_path, name, {}).run
    touched = torch.from_numpy(run.state.touched)
    for vector in algorithms.load(name).client_state:
        assert (name, vector) == ("dpsgd", "step") or run.state.store[vector][touched].any(dim=1).all()
    assert all(value.any() for value in run.server.values())


def test_fedlesam_table_7_but_for_the_known_difference():
    """Table 7 counts FedLESAM-D as if it sent two models; Alg. 4 sends one, as FedDyn in FedSMOO's Table 3."""
    ours = {
        "stored_memory": lambda kind: kind().stored_vectors(),
        "communication_per_round": lambda kind: max(kind.communication),
        "backpropagation_per_local_step": lambda kind: kind.gradients_per_step,
    }
    with open(ROOT / "config" / "reference" / "fedlesam2024_T7.csv", newline="") as file:
        printed = {(row["metric"], row["algorithm"]): float(row["value"]) for row in csv.DictReader(file)}
    pairs = {key: (ours[key[0]](algorithms.load(key[1])), value) for key, value in printed.items() if key[0] in ours}
    assert len(pairs) == 24 and {pairs[metric, "fedavg"] for metric in ours} == {(1, 1.0)}
    assert {key: pair for key, pair in pairs.items() if pair[0] != pair[1]} == {
        ("stored_memory", "fedlesam_d"): (3, 4),
        ("communication_per_round", "fedlesam_d"): (1, 2),
    }


def test_units_of_fedsmoo_table_3():
    """Models that a round moves, by which Table 3's rounds become its communication."""
    units = {"fedavg": 1, "scaffold": 2, "fedcm": 2, "feddyn": 1, "fedsam": 1, "mofedsam": 2, "fedsmoo": 2}
    assert {name: max(algorithms.load(name).communication) for name in units} == units


def test_sizes_of_the_problem_are_unequal():
    """Else nothing above would notice a count that goes by clients in place of steps."""
    assert len({-(-size // 4) for size in SIZES}) > 1 and len(set(SIZES)) == len(SIZES)
