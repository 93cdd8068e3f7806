"""Every algorithm, with every choice it has, equals a slow, obvious implementation over several rounds in float64."""

from __future__ import annotations

import pytest
from second import implementation
from second_dispfl import densities

from flatfed import algorithms
from flatfed.algorithms._layout import Layout
from flatfed.algorithms.dispfl import DisPFL
from harness import advanced, description, full_rows, needs, simulation, sizes, write_problem
from samples import ALGORITHMS, full, sampled

SAM, DUAL, FL_SAM = {"rho": 0.3}, {"penalty": 0.2}, "FL-SAM@2c16149"
STEP, SCALARS, HEADS = {**SAM, "direction": "server_step"}, {"unpacking": "FedLESAM@d6663cc"}, {"unpacking": FL_SAM}
DISTANCE = {**DUAL, "regulariser": FL_SAM}
ALPHA, PAPER, COUNTED = {"alpha": 0.3}, {"scaling": "paper", "server_learning_rate": 0.4}, {"steps": "official_code"}
FASTER = {"server_learning_rate": 0.9}
ADAPTED = {**SAM, **ALPHA, "adaptation": 0.4}

#: Algorithm -> parameters of its cases.
OURS = {
    "fedavg": [{"server_learning_rate": 0.7}],
    "fedprox": [{"mu": 0.3, **FASTER}],
    "fedadam": [{}],
    "scaffold": [FASTER, COUNTED],
    "fedcm": [ALPHA, {**ALPHA, **COUNTED}, {**ALPHA, **PAPER}],
    "mimelite": [{**ALPHA, **FASTER}, {"alpha": 0.9}],
    "fedrobust": [{}, {"affine": "diagonal", "ascent": 2.0, "scale_penalty": 0.3, "shift_penalty": 0.1}],
    "feddyn": [DUAL],
    "fedsam": [{**SAM, **FASTER}],
    "mofedsam": [{**SAM, **ALPHA, **FASTER}, {**SAM, **ALPHA, "scaling": "paper", **COUNTED}],
    "fedgamma": [{**SAM, **FASTER}, {**SAM, **COUNTED}],
    "fedspeed": [{**SAM, **DUAL}, {**SAM, **DUAL, "average": "active_clients"}],
    "fedsmoo": [{**SAM, **DUAL}, {**SAM, **DUAL, "s": "paper"}],
    "fedlesam": [{**SAM, **FASTER}, STEP, {**STEP, "server_learning_rate": 0.6}, {**SAM, "first": "paper"}],
    "fedlesam_s": [SAM, {**STEP, "correction": "official_code", **COUNTED}, {**SAM, "first": "paper", **FASTER}],
    "fedlesam_d": [{**SAM, **DUAL}, {**STEP, **DUAL}, {**SAM, **DUAL, "first": "paper"}],
    "fedgmt": [{**DUAL, "average": 0.7}, {"distillation": 0.4, "temperature": 1.5}],
    "fedwmsam": [ADAPTED, {**ADAPTED, "target": "paper", **COUNTED}, {**SAM, **ALPHA, **PAPER}],
    "fedswa": [{}, {"last_rate": 0.0, "server_learning_rate": 0.7}],
    "fedmoswa": [{}, {"last_rate": 0.4, "adaptation": 0.7, **FASTER}],
    "centralised_sgd": [{}],
    "centralised_sam": [SAM],
    "dpsgd": [{}, {"order": "official_code"}],
    "dfedavg": [{}],
    "dfedavgm": [{"momentum": 0.7}],
    "dispfl": [
        *({}, {"density": 0.3, "anneal": 0.8, "regrow": "gradient"}),
        *({"masks": "same", "density": 0.6}, {"density": 0.3}),
    ],
    "dfedsam": [SAM],
    "dfedsam_mgs": [{**SAM, "gossip_steps": 3}],
}
#: What public code does otherwise than its paper.
PUBLIC = {
    "feddyn": [DISTANCE],
    "fedspeed": [{**SAM, **DISTANCE}],
    "fedsmoo": [
        {**SAM, **DUAL, "unpacking": "FL-Simulator@653ebb5"},
        *({**SAM, **DISTANCE}, {**SAM, **DISTANCE, "s": "paper"}),
    ],
    "fedlesam": [{**STEP, **unpacking, "server_learning_rate": 0.7} for unpacking in (SCALARS, HEADS)],
    "fedlesam_s": [{**STEP, **SCALARS, "correction": "official_code"}, {**STEP, **HEADS}],
    "fedlesam_d": [{**STEP, **SCALARS, **DUAL}, {**STEP, **HEADS, **DUAL}, {**SAM, **DISTANCE}],
    "mofedsam": [{**SAM, **ALPHA, "fresh": "FedLESAM@d6663cc"}],
    "fedwmsam": [{**ADAPTED, "unpacking": "FedWMSAM@a922a1d"}],
}
CASES, AS_SHIPPED = ([(name, case) for name, cases in some.items() for case in cases] for some in (OURS, PUBLIC))

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
    ("fedmoswa", {}, {**COSINE, "momentum": 0.5, "local_steps": 3}),
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
@pytest.mark.parametrize(
    ("name", "params", "changes"),
    [
        *(pytest.param(*case, {}, id=f"{case[0]}-{number}") for number, case in enumerate(CASES)),
        *(pytest.param(*case, {}, id=f"public-{case[0]}-{number}") for number, case in enumerate(AS_SHIPPED)),
        *(pytest.param(*case, id=f"settings-{case[0]}-{number}") for number, case in enumerate(SETTINGS)),
    ],
)
def test_equals_the_second_implementation(tmp_path, name, params, changes, executor):
    check(tmp_path, name, params, executor, **changes)


@pytest.mark.parametrize("changes", sampled(OTHER_PEERS, OTHER_PEERS[:1]), ids=lambda one: one["topology"]["graph"])
@pytest.mark.parametrize("case", sampled(PEERS, [case for case in PEERS if case[0] in ALGORITHMS]))
def test_on_other_graphs_and_when_only_some_nodes_train(tmp_path, case, changes):
    name, params = case
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
