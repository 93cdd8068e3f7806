"""Every algorithm, with every choice it has, equals a slow, obvious implementation over several rounds in float64."""

from __future__ import annotations

import pytest
from second import implementation
from second_dispfl import densities

from flatfed import algorithms
from flatfed.algorithms._layout import Layout
from flatfed.algorithms.dispfl import DisPFL
from harness import advanced, description, full_rows, needs, simulation, sizes, write_problem
from samples import full, sampled

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
    ("fedgmt", {"penalty": 0.2, "average": 0.7}),
    ("fedgmt", {"distillation": 0.4, "temperature": 1.5}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "adaptation": 0.4}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "adaptation": 0.4, "target": "paper", "steps": "official_code"}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "scaling": "paper", "server_learning_rate": 0.4}),
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

SCALARS, HEADS = {"unpacking": "FedLESAM@d6663cc"}, {"unpacking": "FL-SAM@2c16149"}
DISTANCE = {"penalty": 0.2, "regulariser": "FL-SAM@2c16149"}
STEP = {**LESAM, "direction": "server_step"}

#: What public code does otherwise than its paper.
AS_SHIPPED = [
    ("fedsmoo", {"rho": 0.3, "penalty": 0.2, "unpacking": "FL-Simulator@653ebb5"}),
    ("fedlesam", {**STEP, **SCALARS, "server_learning_rate": 0.7}),
    ("fedlesam_s", {**STEP, **SCALARS, "correction": "official_code"}),
    ("fedlesam_d", {**STEP, **SCALARS, "penalty": 0.2}),
    ("mofedsam", {"rho": 0.3, "alpha": 0.3, "fresh": "FedLESAM@d6663cc"}),
    ("fedlesam", {**STEP, **HEADS, "server_learning_rate": 0.7}),
    ("fedlesam_s", {**STEP, **HEADS}),
    ("fedlesam_d", {**STEP, **HEADS, "penalty": 0.2}),
    ("feddyn", {**DISTANCE}),
    ("fedspeed", {"rho": 0.3, **DISTANCE}),
    ("fedsmoo", {"rho": 0.3, **DISTANCE}),
    ("fedsmoo", {"rho": 0.3, **DISTANCE, "s": "paper"}),
    ("fedlesam_d", {**LESAM, **DISTANCE}),
    ("fedwmsam", {"rho": 0.3, "alpha": 0.3, "adaptation": 0.4, "unpacking": "FedWMSAM@a922a1d"}),
]

#: The settings of papers: schedules, momentum, label smoothing, local steps.
COSINE = {"learning_rate_schedule": {"kind": "cosine", "final_learning_rate": 0.03}}
STEP_WISE = {"learning_rate_schedule": {"kind": "step", "milestones": [1, 3], "factor": 0.4}}
SETTINGS = [
    ("fedavg", {}, {**COSINE, "momentum": 0.9}),
    ("fedavg", {}, {**STEP_WISE, "momentum": 0.9, "weight_decay": 0.0}),
    ("fedavg", {}, {**STEP_WISE, "local_steps": 5, "label_smoothing": 0.2}),
    ("scaffold", {}, {**COSINE, "momentum": 0.5, "label_smoothing": 0.1}),
    ("fedcm", {"alpha": 0.3}, {**COSINE, "label_smoothing": 0.1}),
    ("fedcm", {"alpha": 0.3}, {**STEP_WISE, "momentum": 0.9, "local_steps": 3}),
    ("fedsam", {"rho": 0.3}, {"momentum": 0.9, "label_smoothing": 0.3, "local_steps": 4}),
]
INSTEAD = {"learning_rate_schedule": "learning_rate_decay", "local_steps": "local_epochs"}

#: What decentralised algorithms are also tried with: other graphs on six nodes, and half of the nodes.
OTHER_PEERS = [
    {"topology": {"graph": "clique", "neighbours": 2}, "sampling": {"scheme": "fixed", "fraction": 0.5}},
    {"topology": {"graph": "neighbours", "neighbours": 2}},
    {"topology": {"graph": "regular", "neighbours": 3}},
    {"topology": {"graph": "exponential"}},
]
PEERS = [case for case in CASES if algorithms.load(case[0]).decentralised]
EXECUTORS = pytest.mark.parametrize("executor", sampled(["sequential", "stacked", "products"], ["stacked"]))


def check(folder, name, params, executor, **changes):
    """Compare algorithm ``name`` with ``params`` after five rounds."""
    write_problem(folder, sizes(name))
    spec = description(name, params, **{**needs(name), "rounds": 5, **changes})
    spec = {key: value for key, value in spec.items() if key not in [INSTEAD.get(change) for change in changes]}
    declared = {key: value.default for key, value in algorithms.load(name).parameters().items()}
    reference = implementation(name)(folder, spec)
    start = reference.w.clone()
    expected = reference.run(name, {**declared, **params}, 5)
    run = simulation(folder, spec, executor)
    assert advanced(run, 5)[-1]["learning_rate"] == pytest.approx(reference.rates[-1], rel=1e-14)
    assert (full_rows(run, run.server["w"])[0] - expected).abs().max() < 1e-12
    assert (expected - start).abs().max() > 1e-3, "the model must have moved"


def test_every_algorithm_and_every_choice_has_a_case():
    assert {name for name, _ in CASES} == set(algorithms.names())
    for name in algorithms.names():
        for key, declared in algorithms.load(name).parameters().items():
            if isinstance(declared, algorithms.Choice):
                cases = [params for one, params in [*CASES, *AS_SHIPPED] if one == name]
                tried = {params.get(key, declared.default) for params in cases}
                assert tried == set(declared.options), (name, key)


@EXECUTORS
@pytest.mark.parametrize(("name", "params"), CASES)
def test_equals_the_second_implementation(tmp_path, name, params, executor):
    check(tmp_path, name, params, executor)


@EXECUTORS
@pytest.mark.parametrize(("name", "params"), AS_SHIPPED)
def test_what_public_code_does_equals_the_second_implementation(tmp_path, name, params, executor):
    check(tmp_path, name, params, executor)


@EXECUTORS
@pytest.mark.parametrize(("name", "params", "changes"), SETTINGS)
def test_settings_of_papers(tmp_path, name, params, changes, executor):
    check(tmp_path, name, params, executor, **changes)


@pytest.mark.parametrize("changes", sampled(OTHER_PEERS, OTHER_PEERS[:1]), ids=lambda one: one["topology"]["graph"])
@pytest.mark.parametrize(("name", "params"), PEERS)
def test_on_other_graphs_and_when_only_some_nodes_train(tmp_path, name, params, changes):
    check(tmp_path, name, params, "stacked", **changes)


@full
@pytest.mark.parametrize(("name", "params"), [*AS_SHIPPED, *(case for case in CASES if case not in PEERS)])
def test_public_code_and_ours_when_everybody_takes_part_and_nothing_is_clipped(tmp_path, name, params):
    check(tmp_path, name, params, "stacked", sampling={"scheme": "all"}, clip_norm=None)


@pytest.mark.parametrize("density", [0.2, 0.5, 0.8])
def test_dispfls_densities_of_a_larger_model(density):
    shapes = [(32, 3, 5, 5), (64, 32, 3, 3), (64, 64, 5, 5), (64,), (100, 64)]
    rows = Layout(tuple(map(str, range(len(shapes)))), shapes)
    shares = zip(densities(shapes, density), rows.sizes, strict=True)
    expected = [int(share * size) for share, size in shares if share < 1]
    assert [count for _, count in DisPFL(density=density).sparse(rows)] == expected
