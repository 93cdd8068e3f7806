"""Runs in folders of `published` are not trained: the repository's next to one own algorithm."""

import pytest
from project import REPOSITORY, Project

from samples import sampled

TABLE = """\
title: My method next to published rows
reason: none is needed
metric: test_accuracy
quantity: Test accuracy
unit: percent
seeds: [1]
rows: [fedavg, fedcm, feddyn, fedsam, mofedsam, fedsmoo, mine]
columns:
  - {part: Published, protocol: %s, splits: [%s]}
"""
PLAIN = "from flatfed.algorithms import Algorithm\n\n\nclass Mine(Algorithm):\n    pass\n"
COLUMNS = ["fedsmoo-cifar10/path3-200", "fedsmoo-cifar10~cnn/path3-100"]


@pytest.mark.parametrize("column", sampled(COLUMNS, COLUMNS[:1]))
def test_only_the_own_algorithm_is_trained(tmp_path, column):
    project = Project.copied(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/published").symlink_to(REPOSITORY / "results/published")
    (tmp_path / "my").mkdir()
    (tmp_path / "my/mine.py").write_text(PLAIN)
    (tmp_path / "my/column.yaml").write_text(TABLE % tuple(column.split("/")))
    images = {"source": "torchvision", "dataset": "CIFAR10", "order": "results/published/orders/cifar10.npz"}
    keys = {"scale": "paper", "tables": ["column"], "figures": [], "folders": ["my"], "device": "cpu"}
    keys |= {"published": ["results/published"], "data": {"cifar10": images}}
    project.edit_yaml("config/config.yaml", lambda config: config.update(keys))
    assert {folder.strip("'") for folder in project.planned()["train"]} == {f"results/paper/runs/{column}/mine/seed1"}
