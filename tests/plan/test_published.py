"""Published runs in tables: the rows that they serve, and their analyses. tests/runs/test_store.py has the rules."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import made
from flatfed import plan
from flatfed.data import manifest
from flatfed.plan import number, numbers
from flatfed.runs import store, versions
from flatfed.runs.paths import Paths
from flatfed.runs.store import Store
from repository import ROOT

COLUMN = "cifar10-path3-200"
SHIPPED = str(ROOT / "results/published")
ORDERED = {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": f"{SHIPPED}/orders/cifar10.npz"}}
DIGEST = manifest.DIGESTS["cifar10"][0]


@functools.cache
def loaded(ordered: bool) -> plan.Experiment:
    request = {"scale": "paper", "tables": [], "figures": [], "seeds": [1], "data": ORDERED if ordered else {}}
    return plan.load(ROOT, request, Paths("results"))


def experiment(root: Path, *folders: str, forced=(), ordered=True) -> plan.Experiment:
    paths = Paths(str(root / "results"), str(root / "resources"))
    return replace(loaded(ordered), paths=paths, store=Store(folders)).forcing(forced)


def served(found: plan.Experiment, table: str = "fedsmoo2023_T1", column: str = COLUMN) -> dict[str, plan.Run]:
    """Return algorithm -> run of the runs of a column that a published run serves."""
    runs = number.runs_of(numbers.numbers(found, "paper", table, [column])).values()
    return {run.algorithm: run for run in runs if run.path != run.in_results.path}


def test_the_column_of_the_published_runs_needs_no_training(tmp_path):
    found = experiment(tmp_path, SHIPPED)
    runs = served(found)
    assert {*runs} == {"fedavg", "fedadam", "scaffold", "fedcm", "feddyn", "fedsam", "mofedsam", "fedsmoo"}
    assert {name for name, run in runs.items() if run.config.precision == "bfloat16"} == {"fedavg", "fedsmoo"}
    assert runs["fedavg"].protocol == "fedsmoo-cifar10" and runs["fedavg"].record.startswith(SHIPPED)
    assert len(served(found, "cifar10_cnn", "path3-100")) == 12, "records without versions serve"
    assert not served(experiment(tmp_path))
    ids = found.run("paper", "fedsmoo-cifar10~cnn", "path3-100", "fedavg", 1).ids
    analysed = found.shown(ids, "hessian.json")
    assert Path(analysed.hessian).exists() and store.state(analysed) == "finished"
    second = found.run("paper", "fedsmoo-cifar10~cnn", "path3-100", "fedavg", 2).ids
    assert found.shown(second, "surface.npz") == found.shown(second, "surface.npz").in_results, "a model is needed"


def test_the_makefile_has_the_settings_of_the_published_analyses():
    analyses = loaded(True).run("paper", "fedsmoo-cifar10~cnn", "path3-100", "fedavg", 1).analyses
    hessian, surface = analyses["hessian"], analyses["surface"]
    options = [f"--images {hessian['images']} --vectors {hessian['vectors']} "]
    options.append(f"--grid {surface['grid']} --images {surface['images']} ")
    makefile = Path(SHIPPED, "cifar10-cnn/Makefile").read_text(encoding="utf-8")
    assert [text for text in options if text not in makefile] == []
    assert (hessian["top"], surface["range"], surface["set"]) == (5, 1.0, "train"), "defaults of the commands"


def analysed(root: Path, images: int, name: str, **changes) -> None:
    """Write a published run of FedAvg and its Hessian on ``images`` images."""
    run = experiment(root).run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1)
    about = {"settings": run.config.as_json(), "dataset_digest": DIGEST, "versions": versions.of_run(run.config)}
    made.run(root / name / "runs/x", {"round": [800], "test_accuracy": [0.1]}, **about)
    settings = {**made.hessian_about().settings, **changes}
    hessian = made.hessian(44.76, 9.0, run=run.name, images=images, images_of=50000, settings=settings)
    made.written(root / name / "analysis/x/hessian.json", hessian)


def test_a_published_hessian_of_other_settings_does_not_serve(tmp_path, capsys):
    """Configured: 4,096 images, five eigenvalues, 256 vectors. Without the Hessian, the run serves."""
    analysed(tmp_path, 500, "there/few")
    analysed(tmp_path, 4096, "there/top", top=1)
    analysed(tmp_path, 4096, "there/zz", residual=0.5)
    ids = experiment(tmp_path).run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1).ids
    found = experiment(tmp_path, str(tmp_path / "there"))
    assert found.shown(ids, "hessian.json").path == found.paths.run(ids)
    texts = ("images is 500, here 4096", "top is 1, here 5", "residual is 0.5, here 0.01")
    assert [text in line for text, line in zip(texts, capsys.readouterr().err.splitlines(), strict=True)] == [True] * 3
    assert found.shown(ids).path == str(tmp_path / "there/few/runs/x")
    analysed(tmp_path, 4096, "there/all")
    found = experiment(tmp_path, str(tmp_path / "there"))
    assert found.shown(ids, "hessian.json").path == str(tmp_path / "there/all/runs/x")


def test_seconds_of_a_round_ask_for_no_published_run(tmp_path, monkeypatch):
    monkeypatch.delattr(plan.Experiment, "shown")
    timed = numbers.numbers(experiment(tmp_path, SHIPPED), "paper", "fedsmoo2023_T7", ["path3-100.seconds_per_round"])
    assert len(timed) == 8 and all(part.timed for part in timed)
