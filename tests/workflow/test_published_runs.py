"""Runs in folders of `published` are not trained: the repository's next to one own algorithm, and one's own."""

import json
import shutil

import pytest
from project import REPOSITORY, RUNS, Project

from samples import full, sampled

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
RUN = f"{RUNS}/fedsam/seed1"


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


@full
def test_a_run_from_another_host_is_a_folder_in_published(project, tmp_path):
    """Without its model, so an analysis of it trains it. A run that is forced is trained."""
    described = json.loads(project.flatfed("describe", RUN).stdout)
    assert described == project.record(RUN)["description"], "it is what Snakemake passes"
    before = project.table()
    shutil.move(project.root / RUN, tmp_path / "there")
    (tmp_path / "there/model.safetensors").unlink()
    published = ("--config", f"published=[{tmp_path / 'there'}]")
    surface = RUN.replace("/runs/", "/analysis/") + "/surface.npz"
    assert project.planned(*published, "--", surface)["train"] == {RUN}
    assert project.planned(*published, "-R", f"{RUN}/run.json")["train"] == {RUN}
    assert set(project.made(*published)) == {"table", "report"}
    assert project.table() == before and project.planned(*published) == {}
