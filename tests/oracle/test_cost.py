"""What every algorithm declares about its cost, against what its hooks really do in a run: counted, not believed.

Counted are gradients (calls of the executor), what clients read of the server's vectors and of their own state, what
they send, and the links of the topology.
"""

from __future__ import annotations

import csv
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from test_second_implementation import CASES

from flatfed import algorithms
from harness import description, needs, simulation, sizes, with_gradients, write_problem
from repository import ROOT
from samples import ALGORITHMS, sampled

HOOKS = ("start", "second_model", "perturbation", "correct", "update", "finish", "mix")  # what runs at a client


class Reads(dict):
    """A dictionary that notes which of its keys were ``seen``."""

    def __init__(self, values: dict, seen: set[str]):
        super().__init__(values)
        self.seen = seen

    def __getitem__(self, name):
        self.seen.add(name)
        return super().__getitem__(name)


class Watched:
    """A context that notes in ``seen`` what of the server, of the client and of its scratch a hook uses."""

    def __init__(self, ctx, seen: dict[str, set[str]]):
        self._ctx, self._seen = ctx, seen

    def __getattr__(self, name):
        value = getattr(self._ctx, name)
        return Reads(value, self._seen[name]) if name in self._seen else value


class Counted:
    """A run of three rounds whose hooks and gradients are counted.

    ``seen`` names of the vectors that clients read; ``gradients`` of mini-batches and ``full`` (images) in full passes;
    ``sent`` coordinates sent by clients; ``trained`` sizes of the clients of all rounds; ``mixes`` gossip steps.
    """

    def __init__(self, folder: Path, name: str, params: dict, **changes):
        write_problem(folder, sizes(name))
        self.spec = description(name, params, **{**needs(name), "rounds": 3, **changes})
        run = self.run = simulation(folder, self.spec)
        self.seen, self.sent, self.trained = {"server": set(), "client": set(), "scratch": set()}, 0, []
        for hook in HOOKS:
            setattr(run.algorithm, hook, self.watched(getattr(run.algorithm, hook), hook))
        with_gradients(run, step := Mock(wraps=run.executor))
        passes = run.full_gradient = Mock(wraps=run.full_gradient)
        gossip = Mock()
        if run.topology is not None:
            gossip = run.topology.mixing = Mock(wraps=run.topology.mixing)
        for _ in range(3):
            self.trained += [len(run.members[client]) for client in run.sample()]
            run.advance()
        self.gradients = sum(len(call.args[0]) for call in step.call_args_list)
        self.second_models = sum(len(w) for (w, batch), _ in step.call_args_list if batch.second is not None)
        self.full = [len(images) for call in passes.call_args_list for images in call.args[1]]
        self.mixes = gossip.call_count

    def watched(self, hook, name):
        def watched(*arguments):
            *others, ctx = arguments
            found = hook(*others, Watched(ctx, self.seen))
            if name == "finish":
                uploads = {"w": others[0][:, : self.run.layout.size], **found[1]}
                self.sent += sum(value.numel() for value in uploads.values())
            return found

        return watched

    @property
    def steps(self) -> int:
        """Local steps of all clients."""
        spec = self.spec
        if "local_steps" in spec:
            return spec["local_steps"] * len(self.trained)
        return sum(spec["local_epochs"] * -(-size // spec["batch_size"]) for size in self.trained)


PEERS = [case for case in CASES if algorithms.load(case[0]).decentralised]
CLIQUE = {"topology": {"graph": "clique", "neighbours": 2}}
COUNTED = [*((*case, {}) for case in CASES), *((*case, CLIQUE) for case in PEERS)]


@pytest.mark.parametrize("case", sampled(COUNTED, [case for case in COUNTED if case[0] in ALGORITHMS]))
def test_what_hooks_do_is_as_declared(tmp_path, case):
    """Gradients of steps and full passes; down the model and the server's vectors that clients read, up what they send.

    Stored are the model, and next to it every vector of its size that a client's hooks read: its own, remembered,
    downloaded. No vector is carried along for nothing (D-PSGD empties its own in mixing). Without a server, models go
    along links: a ring of six has twelve directed ones, a clique of two has two.
    """
    name, params, changes = case
    found = Counted(tmp_path, name, params, **changes)
    run, algorithm, counts = found.run, found.run.algorithm, found.run.cost.counts
    received, remembered = found.seen["server"] - {*algorithm.server_scalars}, "previous" in found.seen["scratch"]
    assert counts["local_steps"] == found.steps > 0
    assert found.gradients == algorithm.gradients_per_step * found.steps
    assert found.second_models == algorithm.forward_passes * found.steps
    assert sorted(found.full) == sorted(found.trained * algorithm.full_passes)
    batches = sum(-(-size // found.spec["batch_size"]) for size in found.full)
    assert counts["gradient_evaluations"] == found.gradients + batches
    assert found.seen["client"] == set(algorithm.client_state)
    assert remembered == algorithm.remembers == (run.state.received is not None)
    assert algorithm.stored_vectors() == 1 + len(received) + len(found.seen["client"]) + remembered
    touched = torch.from_numpy(run.state.touched)
    assert all(run.state.store[key][touched].any(dim=1).all() for key in algorithm.client_state if key != "step")
    unused = ["h"] if params.get("average") == "active_clients" else []
    assert [key for key, value in run.server.items() if not value.any()] == unused
    (down, up), moved = algorithm.communication, (counts["download"], counts["upload"])
    if algorithm.central:
        assert not received and (down, up, *moved) == (0, 0, 0, 0)
    elif algorithm.decentralised:
        assert not received and found.mixes == 3 * algorithm.gossip_steps
        assert down == up == (algorithm.density if name == "dispfl" else 1)
        links = found.mixes * (2 if changes else 12)
        assert moved == pytest.approx([down * links * run.weights.parameters * 8] * 2, abs=links)
    else:
        models = len(found.trained) * run.layout.size
        assert (1 + len(received), found.sent) == (down, up * models)
        assert moved == (8 * down * models, 8 * up * models)
    if name == "dispfl":  # sends what was trained, under the mask before; layers round their shares down
        shared, model = run.state.store["shared"], run.state.store["model"]
        assert not model[shared == 0].any() and model[run.state.store["mask"] == 0].any()
        most = algorithm.density * run.layout.size
        assert (shared.sum(dim=1) <= most).all() and (shared.sum(dim=1) > most - len(run.layout.sizes)).all()


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
