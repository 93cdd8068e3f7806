"""Graphs of decentralised training: the conditions of DFedSAM's Definition 4.1, and spectral gaps in closed form."""

import numpy as np
import pytest

from flatfed.engine import topology
from flatfed.engine.topology import Topology
from flatfed.errors import ConfigError
from flatfed.runs.graphs import GRAPHS, STATIC, VARYING, torus
from flatfed.runs.run_config import TopologySettings


def graph(name: str, m: int, neighbours: int | None = None, seed: int = 3) -> Topology:
    settings = {} if neighbours is None else {"neighbours": neighbours}
    return Topology(TopologySettings(graph=name, **settings), m, seed)


#: Graph, clients, size of a row, neighbours.
SYMMETRIC = [
    *(("ring", 7, 3, None), ("grid", 12, 5, None), ("exponential", 8, 6, None), ("exponential", 10, 7, None)),
    *(("full", 7, 7, None), ("regular", 9, 5, 4)),
]


@pytest.mark.parametrize(("name", "m", "size", "neighbours"), SYMMETRIC)
def test_symmetric_doubly_stochastic_with_equal_weights(name, m, size, neighbours):
    """Every row holds 1 / (degree + 1) for itself and its neighbours, and nothing else."""
    w = graph(name, m, neighbours).mixing(5)
    assert w.shape == (m, m) and w.dtype == np.float64 and (w == w.T).all() and (w.diagonal() > 0).all()
    assert np.abs(w.sum(axis=0) - 1).max() < 1e-15 and ((w > 0).sum(axis=1) == size).all()
    assert np.unique(w).tolist() == ([1 / m] if size == m else [0, 1 / size])


def test_neighbours_of_the_fixed_graphs():
    def near(name, m):
        return [set(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(graph(name, m).mixing(0))]

    assert near("ring", 5) == [{(i + 1) % 5, (i - 1) % 5} for i in range(5)]
    assert near("exponential", 9) == [{(i + s) % 9 for s in (1, 2, 4, -1, -2, -4)} for i in range(9)]
    torus_12 = near("grid", 12)  # three rows of four
    assert torus_12[5] == {1, 9, 4, 6} and torus_12[0] == {4, 8, 1, 3}
    shapes = {100: (10, 10), 12: (3, 4), 18: (3, 6), 30: (5, 6), 16: (4, 4), 21: (3, 7)}
    assert {m: torus(m) for m in shapes} == shapes, "as square as possible"


def circulant(m: int, *offsets: int) -> np.ndarray:
    """Eigenvalues of the matrix with 1 / (degree + 1) at 0 and +-``offsets`` of every row."""
    near = {sign * s % m for s in offsets for sign in (1, -1)}
    return np.array([1 + sum(np.cos(2 * np.pi * k * s / m) for s in near) for k in range(m)]) / (len(near) + 1)


@pytest.mark.parametrize(
    ("name", "m", "eigenvalues"),
    [
        *(("ring", 100, circulant(100, 1)), ("full", 9, np.array([1.0, 0.0]))),
        ("exponential", 100, circulant(100, *(2**k for k in range(7)))),
    ],
)
def test_spectral_gaps_in_closed_form(name, m, eigenvalues):
    expected = 1 - np.sort(np.abs(eigenvalues))[-2]
    assert graph(name, m).spectral_gap == pytest.approx(expected, abs=1e-12)


def test_a_random_clique_shrinks_by_its_expectation(monkeypatch):
    """E[W'W] = E[W] for projections: lambda^2 = 1 - (n - 1)/(m - 1)."""
    monkeypatch.setattr(topology, "DRAWS", 4000)
    for n, m in ((2, 6), (5, 10)):
        expected = 1 - np.sqrt(1 - (n - 1) / (m - 1))
        assert graph("clique", m, n).spectral_gap == pytest.approx(expected, abs=0.02)
    assert graph("clique", 6, 6).spectral_gap == pytest.approx(1, abs=1e-6)


def test_cliques_of_one_round_are_disjoint():
    made, rounds = graph("clique", 10, 3), []
    for round_ in range(30):
        cliques = []
        for step in range(3):
            w = made.mixing(round_, step)
            members = np.flatnonzero(w.diagonal() != 1)
            expected = np.eye(10)
            expected[np.ix_(members, members)] = 1 / 3
            assert len(members) == 3 and (w == expected).all()
            cliques += members.tolist()
        assert len(set(cliques)) == 9
        rounds.append(tuple(cliques[:3]))
    assert len(set(rounds)) > 20 and set(np.concatenate(rounds).tolist()) == set(range(10))
    with pytest.raises(ConfigError, match=r"4 gossip steps need disjoint cliques of 3.*at most 3"):
        made.mixing(0, 3)


def test_random_neighbours_are_others_and_not_mutual():
    made = graph("neighbours", 8, 3)
    drawn = [made.mixing(round_, step) for round_ in range(10) for step in range(2)]
    for w in drawn:
        assert ((w > 0).sum(axis=1) == 4).all() and (w.diagonal() == 1 / 4).all()
        assert np.abs(w.sum(axis=1) - 1).max() < 1e-15
    assert any((w != w.T).any() and np.abs(w.sum(axis=0) - 1).max() > 0.1 for w in drawn)
    assert (sum(w > 0 for w in drawn) > 0).all(), "everybody is chosen now and then"


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_fixed_or_keyed_by_seed_round_and_step(name):
    neighbours = None if name in STATIC else 3
    made = [graph(name, 12, neighbours, seed) for seed in (3, 3, 4)]
    first = made[0].mixing(0)
    others = [made[0].mixing(1), made[0].mixing(2), made[2].mixing(0), made[0].mixing(0, 1)]
    assert all((first == other).all() == (name in STATIC) for other in others)
    assert (made[1].mixing(2) == others[1]).all() and (made[1].mixing(0) == first).all()


@pytest.mark.parametrize(
    ("name", "m", "neighbours", "message"),
    [
        ("ring", 5, 2, "ring takes no neighbours"),
        *[(name, 5, None, f"{name} needs neighbours") for name in VARYING],
        ("full", 1, None, "at least 2 clients, not 1"),
        ("grid", 97, None, "such as 96 or 98, not 97"),
        ("neighbours", 5, 5, "neighbours of 5 of 5 clients is not possible; 1 to 4"),
        ("regular", 5, 3, "must be even"),
    ],
)
def test_impossible_graphs_are_refused(name, m, neighbours, message):
    with pytest.raises(ConfigError, match=f"^topology: .*{message}"):
        graph(name, m, neighbours)
