"""Identities of the update rules: decentralised training. Float64, 1e-12, with an active clip, weight decay, ragged
batches and unequal clients unless an identity needs otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_identities import EVERYBODY, TOLERANCE, gap

from harness import SIZES, description, simulation, weights

M = len(SIZES)
RING, FULL = {"topology": {"graph": "ring"}}, {"topology": {"graph": "full"}}
DOUBLY = [
    {"graph": "ring"},
    {"graph": "exponential"},
    {"graph": "full"},
    {"graph": "clique", "neighbours": 2},
    {"graph": "regular", "neighbours": 3},
]
NEIGHBOURS = {"graph": "neighbours", "neighbours": 2}
EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])


def peers(folder, name: str, params: dict | None = None, executor: str = "stacked", **changes):
    return simulation(folder, description(name, params, **{"sampling": EVERYBODY, **RING, **changes}), executor)


def models(run, rounds: int = 4) -> torch.Tensor:
    """Return every node's model (nodes, parameters) after ``rounds`` more rounds."""
    for _ in range(rounds):
        run.advance()
    return run.state.store["model"].clone()


def apart(run) -> torch.Tensor:
    """Give every node of ``run`` a random model; return them (nodes, parameters)."""
    store = run.state.store["model"]
    store.copy_(torch.randn(store.shape, generator=torch.Generator().manual_seed(1), dtype=store.dtype))
    return store.clone()


def mix(run, round_: int = 0) -> torch.Tensor:
    """Mix the nodes' models as in round ``round_``, without training; return them."""
    run.round = round_
    run.mix()
    return run.state.store["model"].clone()


@EXECUTORS
@pytest.mark.parametrize("name", ["dfedavg", "dfedsam"])
def test_nodes_without_links_train_alone(tmp_path, name, executor):
    """W = I: node i is a client whom the server asks every time, and nobody else."""
    run = peers(tmp_path, name, executor=executor)
    run.topology.mixing = lambda round_, step=0: np.eye(M)
    found = models(run)
    for client in (0, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("flatfed.engine.simulation.active_clients", lambda *_, client=client: np.array([client]))
            alone = weights(tmp_path, description(name.removeprefix("d")), executor)
        assert gap(found[client], alone) < TOLERANCE
    assert gap(found[0], found[3]) > 1e-4


@pytest.mark.parametrize("name", ["dpsgd", "dfedavg", "dfedavgm", "dfedsam", "dfedsam_mgs"])
@pytest.mark.parametrize("graph", DOUBLY, ids=lambda graph: graph["graph"])
def test_mixing_keeps_the_mean(tmp_path, name, graph):
    run = peers(tmp_path, name, {"gossip_steps": 3} if name == "dfedsam_mgs" else {}, topology=graph)
    for round_ in (0, 3):
        before = apart(run)
        after = mix(run, round_)
        assert gap(after.mean(dim=0), before.mean(dim=0)) < TOLERANCE
        assert gap(after, before) > 0.1


def test_averaging_with_random_neighbours_does_not_keep_the_mean(tmp_path):
    run = peers(tmp_path, "dfedavg", topology=NEIGHBOURS)
    before = apart(run)
    after = mix(run)
    assert gap(after.mean(dim=0), before.mean(dim=0)) > 0.1
    weight = torch.from_numpy(run.topology.mixing(0))
    assert gap(after, weight @ before) < TOLERANCE


@pytest.mark.parametrize("graph", ["ring", "exponential"])
@pytest.mark.parametrize("q", [1, 2, 4])
def test_gossip_on_a_fixed_graph_is_a_power_of_w(tmp_path, graph, q):
    """Q steps are W^Q; they shrink the distance from the mean to lambda^Q of it at most, which the slowest needs."""
    run = peers(tmp_path, "dfedsam_mgs", {"gossip_steps": q}, topology={"graph": graph})
    w = run.topology.mixing(0)
    power, shrink = np.linalg.matrix_power(w, q), 1 - run.topology.spectral_gap()
    before = apart(run)
    after = mix(run)
    assert gap(after, torch.from_numpy(power) @ before) < TOLERANCE
    distance = [float((x - x.mean(dim=0)).norm()) for x in (before, after)]
    assert distance[1] <= shrink**q * distance[0] + TOLERANCE
    values, vectors = np.linalg.eigh(w - 1 / M)
    slowest = torch.from_numpy(vectors[:, np.abs(values).argmax()])[:, None]
    run.state.store["model"].copy_(slowest.expand_as(before))
    assert float(mix(run)[:, 0].norm()) == pytest.approx(shrink**q, abs=TOLERANCE)


def test_gossip_on_changing_graphs_is_the_product_of_its_steps(tmp_path):
    run = peers(tmp_path, "dfedsam_mgs", {"gossip_steps": 3}, topology={"graph": "clique", "neighbours": 2})
    before = apart(run)
    w = [torch.from_numpy(run.topology.mixing(5, step)) for step in range(3)]
    assert gap(mix(run, 5), w[2] @ w[1] @ w[0] @ before) < TOLERANCE
    assert gap(w[0], w[1]) > 0.1


def test_on_the_full_graph_more_gossip_changes_nothing(tmp_path):
    found = [models(peers(tmp_path, "dfedsam_mgs", {"gossip_steps": q, "rho": 0.3}, **FULL)) for q in (1, 2, 5)]
    assert gap(found[0], found[1]) < TOLERANCE and gap(found[0], found[2]) < TOLERANCE
    assert gap(found[0], found[0][:1]) < TOLERANCE, "all nodes have one model"
    sparse = [models(peers(tmp_path, "dfedsam_mgs", {"gossip_steps": q, "rho": 0.3})) for q in (1, 2)]
    assert gap(*sparse) > 1e-4


@EXECUTORS
def test_dpsgd_that_mixes_first_is_fedavg_on_the_full_graph(tmp_path, executor):
    """Every node trains from the mean of all: whatever K, in every round."""
    run = peers(tmp_path, "dpsgd", {"order": "official_code"}, executor, **FULL)
    models(run)
    assert gap(run.server["w"][0], weights(tmp_path, description("fedavg", sampling=EVERYBODY))) < TOLERANCE


def test_dpsgd_of_the_paper_is_fedavg_for_one_round(tmp_path):
    """Afterwards gradients are taken at the nodes' own models, which differ even on the full graph."""
    one = dict(local_epochs=1, batch_size=max(SIZES))
    run = peers(tmp_path, "dpsgd", **FULL, **one)
    for rounds in (1, 2):
        models(run, 1)
        avg = weights(tmp_path, description("fedavg", sampling=EVERYBODY, **one), rounds=rounds)
        assert (gap(run.server["w"][0], avg) < TOLERANCE) == (rounds == 1)


def test_dpsgd_is_mixing_plus_the_step_at_ones_own_model(tmp_path):
    """x_i <- sum_l w_il x_l + (x_i^K - x_i), with x_i^K from W = I."""
    alone, run = peers(tmp_path, "dfedavg"), peers(tmp_path, "dpsgd")
    alone.topology.mixing = lambda round_, step=0: np.eye(M)
    before = apart(run)
    apart(alone)
    mixed = torch.from_numpy(run.topology.mixing(0)) @ before
    assert gap(models(run, 1), mixed + models(alone, 1) - before) < TOLERANCE


@pytest.mark.parametrize("graph", [{"graph": "ring"}, {"graph": "exponential"}])
def test_mixing_before_or_after_training_gives_one_consensus(tmp_path, graph):
    """On a fixed graph the models after W are one another's: the mean over nodes is the same in every round."""
    first, last = (
        peers(tmp_path, "dpsgd", {"order": "official_code"}, topology=graph),
        peers(tmp_path, "dfedavg", topology=graph),
    )
    w = torch.from_numpy(first.topology.mixing(0))
    for _ in range(3):
        before, after = models(first, 1), models(last, 1)
        assert gap(w @ before, after) < TOLERANCE
        assert gap(first.server["w"], last.server["w"]) < TOLERANCE
        assert gap(before, after) > 1e-4


def test_momentum_begins_anew_every_round(tmp_path):
    """One step a round: whatever theta, DFedAvgM is DFedAvg; with more steps it is not."""
    one = dict(local_epochs=1, batch_size=max(SIZES))
    found = [models(peers(tmp_path, name, params, **one)) for name, params in (("dfedavgm", {}), ("dfedavg", {}))]
    assert gap(*found) < TOLERANCE
    more = [models(peers(tmp_path, name)) for name in ("dfedavgm", "dfedavg")]
    assert gap(*more) > 1e-4


@pytest.mark.parametrize("name", ["dfedavg", "dfedsam"])
def test_on_the_full_graph_gossip_is_the_servers_mean_from_then_on(tmp_path, name):
    """Nodes that begin apart are one after a round, and go on as the clients of a server do."""
    run = peers(tmp_path, name, **FULL)
    apart(run)
    models(run, 1)
    server = simulation(tmp_path, description(name.removeprefix("d"), sampling=EVERYBODY))
    server.server["w"].copy_(run.server["w"])
    server.round = 1
    for _ in range(2):
        run.advance(), server.advance()
    assert gap(run.server["w"], server.server["w"]) < TOLERANCE
    assert gap(run.state.store["model"], run.server["w"]) < TOLERANCE
