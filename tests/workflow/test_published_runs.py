"""The published columns next to one own algorithm: Snakemake trains the own algorithm alone."""

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
    order = "results/published/orders/cifar10.npz"
    (tmp_path / "my").mkdir()
    (tmp_path / "my/mine.py").write_text(PLAIN)
    (tmp_path / "my/column.yaml").write_text(TABLE % tuple(column.split("/")))
    keys = {"tables": ["column"], "figures": [], "folders": ["my"]}
    keys |= {"scale": "paper", "published": ["results/published"], "device": "cpu"}
    refused = {**keys, "data": {}}
    keys["data"] = {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": order}}
    project.edit_yaml("config/config.yaml", lambda config: config.update(refused))
    assert f"add `order: {order}` to their source" in project.refused("--dry-run")
    project.edit_yaml("config/config.yaml", lambda config: config.update(keys))
    runs = f"results/paper/runs/{column}"

    def trained(*arguments):
        return {folder.strip("'") for folder in project.planned(*arguments)["train"]}

    assert trained() == {f"{runs}/mine/seed1"}
    assert trained("-R", f"{runs}/fedsmoo/seed1/run.json") == {f"{runs}/mine/seed1", f"{runs}/fedsmoo/seed1"}
