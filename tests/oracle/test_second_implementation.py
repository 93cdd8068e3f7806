"""Every algorithm equals a slow, obvious implementation over several rounds in float64, with either executor."""

from __future__ import annotations

import pytest
from harness import Reference, description, weights

from flatfed import algorithms

CASES = [
    ("fedavg", {"server_learning_rate": 0.7}),
    ("fedadam", {}),
    ("scaffold", {"server_learning_rate": 0.9}),
    ("fedcm", {"alpha": 0.3}),
    ("feddyn", {"penalty": 0.2}),
    ("fedsam", {"rho": 0.3}),
    ("mofedsam", {"rho": 0.3, "alpha": 0.3}),
    ("fedsmoo", {"rho": 0.3, "penalty": 0.2}),
    ("fedsmoo", {"rho": 0.3, "penalty": 0.2, "s": "paper"}),
]


def test_every_algorithm_has_a_case():
    assert {name for name, _ in CASES} == set(algorithms.names())


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize(("name", "params"), CASES)
def test_equals_the_second_implementation(tmp_path, name, params, executor):
    spec = description(name, params, rounds=5)
    declared = {key: value.default for key, value in algorithms.load(name).parameters().items()}
    expected = Reference(tmp_path, spec).run(name, {**declared, **params}, 5)
    found = weights(tmp_path, spec, executor)
    assert (found - expected).abs().max() < 1e-12
    assert (found - Reference(tmp_path, spec).w).abs().max() > 1e-3, "the model must have moved"
