"""Identities of decentralised training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from exact import EXECUTORS, RING, TOLERANCE, gap, model, run

from harness import SIZES

M = len(SIZES)
DOUBLY = {"ring": {}, "exponential": {}, "full": {}, "clique": {"neighbours": 2}, "regular": {"neighbours": 3}}


def peers(folder, name: str, params: dict | None = None, executor: str = "stacked", **changes):
    return run(folder, name, params, executor=executor, **{**RING, **changes})


def models(found, rounds: int = 1) -> torch.Tensor:
    """Return every node's model (nodes, parameters) after ``rounds`` more rounds."""
    for _ in range(rounds):
        found.advance()
    return found.state.store["model"].clone()


def apart(found) -> torch.Tensor:
    """Give every node of a run a random model; return them (nodes, parameters)."""
    store = found.state.store["model"]
    store.copy_(torch.randn(store.shape, generator=torch.Generator().manual_seed(1), dtype=store.dtype))
    return store.clone()


def mix(found, round_: int = 0) -> torch.Tensor:
    """Mix the nodes' models as in round ``round_``, without training; return them."""
    found.round = round_
    found.mix()
    return found.state.store["model"].clone()


@EXECUTORS
@pytest.mark.parametrize("name", ["dfedavg", "dfedsam"])
def test_nodes_without_links_train_alone(tmp_path, monkeypatch, name, executor):
    """W = I: node i is a client whom the server asks every time, and nobody else."""
    found = peers(tmp_path, name, executor=executor)
    found.topology.mixing = lambda round_, step=0: np.eye(M)
    nodes = models(found, 4)
    for client in (0, 3):
        monkeypatch.setattr("flatfed.engine.simulation.active_clients", lambda *_, client=client: np.array([client]))
        assert gap(nodes[client], model(tmp_path, name.removeprefix("d"), executor=executor)[0]) < TOLERANCE
    assert gap(nodes[0], nodes[3]) > 1e-4


@pytest.mark.parametrize("name", ["dpsgd", "dfedavgm", "dfedsam_mgs"])
@pytest.mark.parametrize("graph", [*DOUBLY, "neighbours"])
def test_mixing_is_the_product_of_its_steps_and_keeps_the_mean_but_with_random_neighbours(tmp_path, name, graph):
    topology = {"graph": graph, **DOUBLY.get(graph, {"neighbours": 2})}
    steps = 3 if name == "dfedsam_mgs" else 1
    found = peers(tmp_path, name, {"gossip_steps": 3} if steps == 3 else {}, topology=topology)
    for round_ in (0, 3):
        before = product = apart(found)
        after = mix(found, round_)
        for q in range(steps):
            product = torch.from_numpy(found.topology.mixing(round_, q)) @ product
        assert gap(after, product) < TOLERANCE
        assert (gap(after.mean(dim=0), before.mean(dim=0)) < TOLERANCE) == (graph in DOUBLY)
        assert gap(after, before) > 0.1


@pytest.mark.parametrize("graph", ["ring", "exponential"])
@pytest.mark.parametrize("q", [1, 2, 4])
def test_gossip_on_a_fixed_graph_is_a_power_of_w(tmp_path, graph, q):
    """Q steps are W^Q; they shrink the distance from the mean to lambda^Q of it at most, which the slowest needs."""
    found = peers(tmp_path, "dfedsam_mgs", {"gossip_steps": q}, topology={"graph": graph})
    w, shrink = found.topology.mixing(0), 1 - found.topology.spectral_gap()
    before = apart(found)
    after = mix(found)
    assert gap(after, torch.from_numpy(np.linalg.matrix_power(w, q)) @ before) < TOLERANCE
    distance = [float((x - x.mean(dim=0)).norm()) for x in (before, after)]
    assert distance[1] <= shrink**q * distance[0] + TOLERANCE
    values, vectors = np.linalg.eigh(w - 1 / M)
    slowest = torch.from_numpy(vectors[:, np.abs(values).argmax()])[:, None]
    found.state.store["model"].copy_(slowest.expand_as(before))
    assert float(mix(found)[:, 0].norm()) == pytest.approx(shrink**q, abs=TOLERANCE)
