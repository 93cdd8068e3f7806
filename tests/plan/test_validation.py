"""A protocol that holds out training images: its runs, and the metrics that its tables may show."""

from __future__ import annotations

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.plan.numbers import numbers

FILE = "protocols/fedsmoo-cifar10.yaml"
SEARCH = {"label": "Search", "validation": 0.1, "accuracy": "validation_accuracy"}
SEARCH["evaluation"] = {"sets": ["validation"]}
TABLE = """
title: Search
rows: [fedavg]
metric: {metric}
unit: percent
columns: [{{protocol: fedsmoo-cifar10~search, splits: [path3-100]}}]
"""


def load(folder, metric, **changes):
    root = made.edited(made.small(folder), FILE, lambda content: content["variants"].update(search=SEARCH | changes))
    (root / "config/tables/search.yaml").write_text(TABLE.format(metric=metric))
    return plan.load(root)


def test_runs_hold_out_images_and_are_evaluated_on_them(tmp_path):
    experiment = load(tmp_path, "validation_accuracy")
    number, *_ = numbers(experiment, "paper", "search")
    config = number.runs[0].config
    assert (config.validation, config.evaluation.sets) == (0.1, ["validation"])
    assert number.accuracy == "validation_accuracy"
    plain = experiment.run("paper", "fedsmoo-cifar10", "path3-100", "fedavg", 1).config
    differing = {key for key in plain.deciding | config.deciding if plain.deciding.get(key) != config.deciding.get(key)}
    assert differing == {"protocol", "validation", "evaluation"}


@pytest.mark.parametrize(
    ("metric", "changes", "words"),
    [
        ("test_accuracy", {}, r"metric 'test_accuracy' needs 'test' among evaluation\.sets .* evaluates validation"),
        ("validation_accuracy", {"accuracy": "test_accuracy"}, "accuracy: test_accuracy needs 'test' among"),
    ],
)
def test_numbers_of_test_images_are_refused_there(tmp_path, metric, changes, words):
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, metric, **changes)
