"""Graphs of decentralised training: what Definition 4.1 of DFedSAM asks of W, and spectral gaps in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from flatfed.engine import topology
from flatfed.engine.topology import Topology
from flatfed.errors import ConfigError
from flatfed.runs.graphs import GRAPHS, STATIC, VARYING, torus
from flatfed.runs.run_config import TopologySettings

SYMMETRIC = [
    ({"graph": "ring"}, 7, 3),
    ({"graph": "grid"}, 12, 5),
    ({"graph": "exponential"}, 8, 6),
    ({"graph": "exponential"}, 10, 7),
    ({"graph": "full"}, 7, 7),
    ({"graph": "regular", "neighbours": 4}, 9, 5),
]
CLIQUE, NEIGHBOURS = {"graph": "clique", "neighbours": 3}, {"graph": "neighbours", "neighbours": 3}


def circulant(m: int, offsets: set[int]) -> np.ndarray:
    """Eigenvalues of the matrix with 1 / (degree + 1) at 0 and +-``offsets`` of every row."""
    near = {sign * s % m for s in offsets for sign in (1, -1)}
    return np.array([1 + sum(np.cos(2 * np.pi * k * s / m) for s in near) for k in range(m)]) / (len(near) + 1)


def test_every_graph_is_tried():
    assert {spec["graph"] for spec, _, _ in SYMMETRIC} | {"clique", "neighbours"} == set(GRAPHS)


@pytest.mark.parametrize(("spec", "m", "size"), SYMMETRIC)
@pytest.mark.parametrize("round_", [0, 5])
def test_symmetric_doubly_stochastic_with_equal_weights(spec, m, size, round_):
    """Every row holds 1 / (degree + 1) for itself and its neighbours, and nothing else."""
    w = Topology(TopologySettings(**spec), m, 3).mixing(round_)
    assert w.shape == (m, m) and w.dtype == np.float64
    assert (w == w.T).all()
    assert np.abs(w.sum(axis=0) - 1).max() < 1e-15 and np.abs(w.sum(axis=1) - 1).max() < 1e-15
    assert ((w > 0).sum(axis=1) == size).all()
    assert np.unique(w).tolist() == ([1 / m] if size == m else [0, 1 / size])
    assert (w.diagonal() > 0).all()


def test_who_is_next_to_whom():
    def near(graph, m):
        return [
            set(np.flatnonzero(row).tolist()) - {i}
            for i, row in enumerate(Topology(TopologySettings(graph=graph), m, 0).mixing(0))
        ]

    assert near("ring", 5) == [{(i + 1) % 5, (i - 1) % 5} for i in range(5)]
    assert near("exponential", 9) == [{(i + s) % 9 for s in (1, 2, 4, -1, -2, -4)} for i in range(9)]
    torus_12 = near("grid", 12)  # three rows of four
    assert torus_12[5] == {1, 9, 4, 6} and torus_12[0] == {4, 8, 1, 3}


@pytest.mark.parametrize(
    ("m", "shape"), [(100, (10, 10)), (12, (3, 4)), (18, (3, 6)), (30, (5, 6)), (16, (4, 4)), (21, (3, 7))]
)
def test_the_torus_is_as_square_as_possible(m, shape):
    assert torus(m) == shape


@pytest.mark.parametrize(
    ("spec", "m", "eigenvalues"),
    [
        *[({"graph": "ring"}, m, circulant(m, {1})) for m in (3, 4, 5, 8, 100)],
        *[({"graph": "exponential"}, m, circulant(m, {1, 2, 4})) for m in (8, 9, 10)],
        ({"graph": "exponential"}, 100, circulant(100, {1, 2, 4, 8, 16, 32, 64})),
        *[({"graph": "full"}, m, np.array([1.0, 0.0])) for m in (2, 9)],
        *[
            (
                {"graph": "grid"},
                a * b,
                np.add.outer(2 * np.cos(2 * np.pi * np.arange(a) / a) + 1, 2 * np.cos(2 * np.pi * np.arange(b) / b))
                / 5,
            )
            for a, b in ((3, 3), (3, 4), (10, 10))
        ],
    ],
)
def test_spectral_gaps_in_closed_form(spec, m, eigenvalues):
    others = np.sort(np.abs(eigenvalues), axis=None)[:-1]
    assert Topology(TopologySettings(**spec), m, 0).spectral_gap() == pytest.approx(1 - others[-1], abs=1e-12)


def test_the_ring_of_one_hundred():
    """The gap that DFedSAM, section 3.1, means: (2/3)(1 - cos(2 pi / m)), about 4 pi^2 / (3 m^2)."""
    gap = Topology(TopologySettings(graph="ring"), 100, 0).spectral_gap()
    assert gap == pytest.approx(2 / 3 * (1 - np.cos(2 * np.pi / 100)), abs=1e-12)
    assert gap == pytest.approx(4 * np.pi**2 / 3 / 100**2, rel=1e-3)


def test_a_random_clique_shrinks_by_its_expectation(monkeypatch):
    """E[W'W] = E[W] for projections: lambda^2 = 1 - (n - 1)/(m - 1)."""
    monkeypatch.setattr(topology, "DRAWS", 4000)
    for n, m in ((2, 6), (5, 10)):
        found = Topology(TopologySettings(graph="clique", neighbours=n), m, 1).spectral_gap()
        assert found == pytest.approx(1 - np.sqrt(1 - (n - 1) / (m - 1)), abs=0.02)
    assert Topology(TopologySettings(graph="clique", neighbours=6), 6, 1).spectral_gap() == pytest.approx(1, abs=1e-6)


def test_gossip_contracts_by_lambda_at_most():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 4))
    away = np.linalg.norm(x - x.mean(axis=0), axis=0)
    for graph in ("ring", "grid", "exponential"):
        made = Topology(TopologySettings(graph=graph), 12, 0)
        w, shrink = made.mixing(0), 1 - made.spectral_gap()
        for q in (1, 2, 4):
            mixed = np.linalg.matrix_power(w, q) @ x
            assert (np.linalg.norm(mixed - x.mean(axis=0), axis=0) <= shrink**q * away + 1e-12).all()
        values, vectors = np.linalg.eigh(w - 1 / 12)
        slowest = vectors[:, np.abs(values).argmax()]
        assert np.linalg.norm(w @ slowest) == pytest.approx(shrink, abs=1e-12)


def test_cliques_of_one_round_are_disjoint():
    made, rounds = Topology(TopologySettings(**CLIQUE), 10, 3), []
    for round_ in range(30):
        cliques = []
        for step in range(3):
            w = made.mixing(round_, step)
            members = np.flatnonzero(w.diagonal() != 1)
            assert len(members) == 3 and (w[np.ix_(members, members)] == 1 / 3).all()
            rest = np.setdiff1d(np.arange(10), members)
            assert (w[rest] == np.eye(10)[rest]).all() and (w == w.T).all()
            cliques.append(members)
        assert len(set(np.concatenate(cliques).tolist())) == 9
        rounds.append(tuple(cliques[0]))
    assert len(set(rounds)) > 20 and set(np.concatenate(rounds).tolist()) == set(range(10))
    with pytest.raises(ConfigError, match=r"4 gossip steps need disjoint cliques of 3.*at most 3"):
        made.mixing(0, 3)


def test_random_neighbours_are_others_and_not_mutual():
    made = Topology(TopologySettings(**NEIGHBOURS), 8, 3)
    drawn = [made.mixing(round_, step) for round_ in range(10) for step in range(2)]
    for w in drawn:
        assert ((w > 0).sum(axis=1) == 4).all() and (w.diagonal() == 1 / 4).all()
        assert np.abs(w.sum(axis=1) - 1).max() < 1e-15
    assert any((w != w.T).any() and np.abs(w.sum(axis=0) - 1).max() > 0.1 for w in drawn)
    assert (sum(w > 0 for w in drawn) > 0).all(), "everybody is chosen now and then"


@pytest.mark.parametrize("spec", [CLIQUE, NEIGHBOURS, {"graph": "regular", "neighbours": 3}])
def test_time_varying_graphs_are_keyed_by_seed_and_round(spec):
    made = [Topology(TopologySettings(**spec), 12, 3).mixing(round_) for round_ in range(4)]
    again = [Topology(TopologySettings(**spec), 12, 3).mixing(round_) for round_ in (3, 2, 1, 0)]
    assert all((a == b).all() for a, b in zip(made, again[::-1], strict=True))
    assert all((made[0] != other).any() for other in [*made[1:], Topology(TopologySettings(**spec), 12, 4).mixing(0)])
    one = Topology(TopologySettings(**spec), 12, 3)
    assert (one.mixing(0, 0) != one.mixing(0, 1)).any()


@pytest.mark.parametrize("graph", STATIC)
def test_fixed_graphs_stay(graph):
    made = Topology(TopologySettings(graph=graph), 12, 3)
    assert (made.mixing(0) == made.mixing(7, 2)).all()
    assert (made.mixing(0) == Topology(TopologySettings(graph=graph), 12, 4).mixing(0)).all()


@pytest.mark.parametrize(
    ("spec", "m", "message"),
    [
        ({"graph": "ring", "neighbours": 2}, 5, "ring takes no neighbours"),
        *[({"graph": graph}, 5, f"{graph} needs neighbours") for graph in VARYING],
        ({"graph": "ring"}, 2, "at least 3 clients, not 2"),
        ({"graph": "full"}, 1, "at least 2 clients, not 1"),
        ({"graph": "grid"}, 10, "such as 9 or 12, not 10"),
        ({"graph": "grid"}, 97, "such as 96 or 98, not 97"),
        ({"graph": "clique", "neighbours": 6}, 5, "clique of 6 of 5 clients is not possible; 2 to 5"),
        ({"graph": "clique", "neighbours": 1}, 5, "clique of 1 of 5 clients is not possible"),
        ({"graph": "neighbours", "neighbours": 5}, 5, "neighbours of 5 of 5 clients is not possible; 1 to 4"),
        ({"graph": "regular", "neighbours": 3}, 5, "must be even"),
        ({"graph": "regular", "neighbours": 5}, 5, "2 to 4"),
    ],
)
def test_what_does_not_fit_is_refused(spec, m, message):
    with pytest.raises(ConfigError, match=f"^topology: .*{message}"):
        Topology(TopologySettings(**spec), m, 0)
