"""Every algorithm, with every choice it has, equals a slow, obvious implementation over several rounds in float64."""

from __future__ import annotations

import pytest
from harness import description, needs, sizes, weights, write_problem
from second import implementation

from flatfed import algorithms

LESAM = {"rho": 0.3}
CASES = [
    ("fedavg", {"server_learning_rate": 0.7}),
    ("fedprox", {"mu": 0.3, "server_learning_rate": 0.9}),
    ("fedadam", {}),
    ("scaffold", {"server_learning_rate": 0.9}),
    ("scaffold", {"steps": "official_code"}),
    ("fedcm", {"alpha": 0.3}),
    ("fedcm", {"alpha": 0.3, "steps": "official_code"}),
    ("fedcm", {"alpha": 0.3, "scaling": "paper", "server_learning_rate": 0.4}),
    ("mimelite", {"alpha": 0.3, "server_learning_rate": 0.9}),
    ("mimelite", {"alpha": 0.9}),
    ("fedrobust", {}),
    ("fedrobust", {"affine": "diagonal", "ascent": 2.0, "scale_penalty": 0.3, "shift_penalty": 0.1}),
    ("feddyn", {"penalty": 0.2}),
    ("fedsam", {"rho": 0.3}),
    ("mofedsam", {"rho": 0.3, "alpha": 0.3}),
    ("mofedsam", {"rho": 0.3, "alpha": 0.3, "scaling": "paper", "steps": "official_code"}),
    ("fedgamma", {"rho": 0.3, "server_learning_rate": 0.9}),
    ("fedgamma", {"rho": 0.3, "steps": "official_code"}),
    ("fedspeed", {"rho": 0.3, "penalty": 0.2}),
    ("fedspeed", {"rho": 0.3, "penalty": 0.2, "average": "active_clients"}),
    ("fedsmoo", {"rho": 0.3, "penalty": 0.2}),
    ("fedsmoo", {"rho": 0.3, "penalty": 0.2, "s": "paper"}),
    ("fedlesam", {**LESAM, "server_learning_rate": 0.9}),
    ("fedlesam", {**LESAM, "direction": "server_step"}),
    ("fedlesam", {**LESAM, "direction": "server_step", "server_learning_rate": 0.6}),
    ("fedlesam", {**LESAM, "first": "paper"}),
    ("fedlesam_s", LESAM),
    ("fedlesam_s", {**LESAM, "direction": "server_step", "correction": "official_code", "steps": "official_code"}),
    ("fedlesam_s", {**LESAM, "first": "paper"}),
    ("fedlesam_d", {**LESAM, "penalty": 0.2}),
    ("fedlesam_d", {**LESAM, "penalty": 0.2, "direction": "server_step"}),
    ("fedlesam_d", {**LESAM, "penalty": 0.2, "first": "paper"}),
    ("centralised_sgd", {}),
    ("centralised_sam", {"rho": 0.3}),
    ("dpsgd", {}),
    ("dpsgd", {"order": "official_code"}),
    ("dfedavg", {}),
    ("dfedavgm", {"momentum": 0.7}),
    ("dispfl", {}),
    ("dispfl", {"density": 0.3, "anneal": 0.8, "regrow": "gradient"}),
    ("dispfl", {"masks": "same", "density": 0.6}),
    ("dispfl", {"density": 0.3}),
    ("dfedsam", {"rho": 0.3}),
    ("dfedsam_mgs", {"rho": 0.3, "gossip_steps": 3}),
]

#: Graphs on six nodes that decentralised algorithms are also tried on: time-varying, symmetric or not, few nodes.
GRAPHS = [
    {"graph": "clique", "neighbours": 2},
    {"graph": "neighbours", "neighbours": 2},
    {"graph": "regular", "neighbours": 3},
    {"graph": "exponential"},
]
PEERS = [case for case in CASES if algorithms.load(case[0]).decentralised]
EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])


def check(folder, name, params, executor, **changes):
    write_problem(folder, sizes(name))
    spec = description(name, params, **{**needs(name), "rounds": 5, **changes})
    declared = {key: value.default for key, value in algorithms.load(name).parameters().items()}
    reference = implementation(name)(folder, spec)
    start = reference.w.clone()
    expected = reference.run(name, {**declared, **params}, 5)
    found = weights(folder, spec, executor)
    assert (found - expected).abs().max() < 1e-12
    assert (found - start).abs().max() > 1e-3, "the model must have moved"


def test_every_algorithm_and_every_choice_has_a_case():
    assert {name for name, _ in CASES} == set(algorithms.names())
    for name in algorithms.names():
        for key, declared in algorithms.load(name).parameters().items():
            if isinstance(declared, algorithms.Choice):
                tried = {params.get(key, declared.default) for one, params in CASES if one == name}
                assert tried == set(declared.options), (name, key)


@EXECUTORS
@pytest.mark.parametrize(("name", "params"), CASES)
def test_equals_the_second_implementation(tmp_path, name, params, executor):
    check(tmp_path, name, params, executor)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph["graph"])
@pytest.mark.parametrize(("name", "params"), PEERS)
def test_on_other_graphs(tmp_path, name, params, graph):
    check(tmp_path, name, params, "stacked", topology=graph)


@pytest.mark.parametrize(("name", "params"), PEERS)
def test_when_only_some_nodes_train(tmp_path, name, params):
    check(tmp_path, name, params, "stacked", sampling={"scheme": "fixed", "fraction": 0.5})


@pytest.mark.parametrize(("name", "params"), CASES[:34])
def test_when_everybody_takes_part_and_nothing_is_clipped(tmp_path, name, params):
    check(tmp_path, name, params, "stacked", sampling={"scheme": "all"}, clip_norm=None)
