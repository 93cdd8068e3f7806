"""Published runs: which serve a table, which do not, and images in another order."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import made
from flatfed import plan
from flatfed.commands import configuration, run_folders
from flatfed.config import parsed_files
from flatfed.data import manifest
from flatfed.engine import versions
from flatfed.errors import ConfigError, DataError
from flatfed.plan import number, numbers
from flatfed.runs import landscape_file
from flatfed.runs.landscape_file import Landscape
from flatfed.runs.paths import Paths
from repository import ROOT

COLUMN = "cifar10-path3-200"
SHIPPED = str(ROOT / "results/published")
DIGEST = manifest.DIGESTS["cifar10"][0]


@functools.cache
def loaded(folders: tuple[str, ...], paths: Paths) -> plan.Experiment:
    request = {"scale": "paper", "tables": [], "figures": [], "seeds": [1], "published": list(folders)}
    return plan.load(ROOT, request, paths)


def experiment(root: Path, *folders: str, trained=()) -> plan.Experiment:
    paths = Paths(str(root / "results"), str(root / "resources"))
    images = (root / "resources").exists()  # which the order of the published images depends on
    found = replace(loaded(folders, paths if images else Paths("results")), paths=paths)
    return run_folders.with_published(found, trained)


def served(found: plan.Experiment, table: str = "fedsmoo2023_T1", column: str = COLUMN) -> dict[str, plan.Run]:
    """Return algorithm -> run of the runs of a column that a published run serves."""
    runs = number.runs_of(numbers.numbers(found, "paper", table, [column])).values()
    return {run.algorithm: run for run in runs if run.path != run.in_results.path}


def put_images(root: Path, digest: str) -> None:
    about = {"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "train": 50000, "test": 10000, "domains": None}
    path = root / "resources/cifar10/dataset.json"
    manifest.write(path, manifest.Manifest(**about, source={"source": "npz"}, digest=digest, bytes=1))


def test_the_column_of_the_published_runs_needs_no_training(tmp_path):
    found = experiment(tmp_path, SHIPPED)
    runs = served(found)
    assert {*runs} == {"fedavg", "fedadam", "scaffold", "fedcm", "feddyn", "fedsam", "mofedsam", "fedsmoo"}
    assert {name for name, run in runs.items() if run.config.precision == "bfloat16"} == {"fedavg", "fedsmoo"}
    assert runs["fedavg"].protocol == "fedsmoo-cifar10" and runs["fedavg"].record.startswith(SHIPPED)
    assert found.catalog.dataset_spec("cifar10").source.order == f"{SHIPPED}/orders/cifar10.npz"
    assert len(served(found, "cifar10_cnn", "path3-100")) == 12, "records without versions serve"
    assert not served(experiment(tmp_path)) and not experiment(tmp_path).catalog.sources["cifar10"].order
    ids = found.run("paper", "fedsmoo-cifar10~cnn", "path3-100", "fedavg", 1).ids
    analysed = found.shown(ids, "hessian.json")
    assert Path(analysed.hessian).exists() and run_folders.state(analysed, True) == "finished"
    assert found.shown(ids, "surface.npz") == analysed.in_results, "a model is needed, so it is trained"


def test_results_and_forced_runs_go_first(tmp_path):
    place = Path(experiment(tmp_path).run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1).path)
    forced = experiment(tmp_path, SHIPPED, trained=[f"{place}/run.json"])
    assert "fedavg" not in served(forced) and "fedsmoo" in served(forced)
    assert not served(experiment(tmp_path, SHIPPED, trained=["train"]))
    made.run(place, {"round": [1], "test_accuracy": [0.1]})
    assert "fedavg" not in served(experiment(tmp_path, SHIPPED))


@pytest.mark.parametrize(
    ("settings", "record", "text"),
    [
        ({"batch_size": 7}, {}, "batch_size is 7, here 50"),
        ({}, {"versions": {"engine": 0}}, "engine is version 0, now"),
        ({"executor": {"cpu": "stacked", "cuda": "stacked"}, "checkpoint_every": 3}, {}, ""),
        ({}, {"rounds_done": 3}, None),
    ],
    ids=["other settings", "other versions", "other execution", "unfinished"],
)
def test_the_identity_rule_decides(tmp_path, capsys, settings, record, text):
    run = experiment(tmp_path).run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1)
    about = {"rounds_done": 800, "dataset_digest": DIGEST, "versions": versions.of_run(run.config), **record}
    lines = {"round": [about["rounds_done"]], "test_accuracy": [0.1]}
    made.run(tmp_path / "there/x", lines, settings={**run.config.as_json(), **settings}, **about)
    put_images(tmp_path, DIGEST)
    assert ("fedavg" in served(experiment(tmp_path, str(tmp_path / "there")))) == (text == "")
    said = capsys.readouterr().err
    assert (text in said and said.count("\n") == 1) if text else not said


@pytest.mark.parametrize(("learning_rate", "serves"), [(0.1, True), (0.5, False)])
def test_a_variant_named_bfloat16_serves_only_with_the_settings_of_its_protocol(tmp_path, learning_rate, serves):
    """Also if the variant of that name has other settings here."""

    def change(protocol):
        protocol["variants"]["bfloat16"]["learning_rate"] = learning_rate

    (tmp_path / "there").mkdir()
    request = {"scale": "paper", "tables": [], "figures": [], "seeds": [1], "published": [str(tmp_path / "there")]}
    here = plan.load(made.edited(tmp_path, "protocols/fedsmoo-cifar10.yaml", change), request, Paths("nowhere"))
    variant = here.run("paper", "fedsmoo-cifar10~bfloat16", "path3-200", "fedavg", 1)
    about = {"settings": variant.config.as_json(), "versions": versions.of_run(variant.config)}
    made.run(tmp_path / "there/x", {"round": [800], "test_accuracy": [0.1]}, dataset_digest=DIGEST, **about)
    put_images(tmp_path, DIGEST)
    found = run_folders.with_published(replace(here, paths=Paths("nowhere", str(tmp_path / "resources"))))
    run = found.shown(replace(variant.ids, protocol="fedsmoo-cifar10"))
    assert (run.path == str(tmp_path / "there/x")) == serves
    assert (run.config.learning_rate, run.config.precision) == (0.1, "bfloat16" if serves else "float32")


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
    put_images(tmp_path, DIGEST)
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


def test_a_published_run_in_a_linked_folder_serves(tmp_path):
    put_images(tmp_path, DIGEST)
    analysed(tmp_path, 4096, "elsewhere")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/linked").symlink_to(tmp_path / "elsewhere/runs")
    assert served(experiment(tmp_path, str(tmp_path / "there")))["fedavg"].path == str(tmp_path / "there/linked/x")


def test_of_several_runs_the_first_that_finished_serves_or_the_one_with_the_analysis(tmp_path):
    run = experiment(tmp_path).run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1)
    about = {"settings": run.config.as_json(), "dataset_digest": DIGEST, "versions": versions.of_run(run.config)}
    for place, finished, rounds in (("a", "2026-01-02", 800), ("b", "2026-01-01", 800), ("c", "2025-01-01", 9)):
        diverged = None if rounds == 800 else rounds
        lines = {"round": [rounds], "test_accuracy": [0.1]}
        made.run(tmp_path / place / "runs/x", lines, **about, finished=finished, diverged_at=diverged)
    (tmp_path / "a/analysis/x").mkdir(parents=True)
    model = made.landscape_model("fedavg", name=run.name, scale="paper")
    about = made.landscape_about([model], grid=51, images=4096)
    grid, values = np.zeros(51), np.zeros((1, 51, 51))
    landscape_file.write(tmp_path / "a/analysis/x/surface.npz", Landscape(about, grid, grid, values, values))
    put_images(tmp_path, DIGEST)
    found = experiment(tmp_path, str(tmp_path))
    assert served(found)["fedavg"].path == str(tmp_path / "b/runs/x")
    assert found.shown(run.ids, "surface.npz").path == str(tmp_path / "a/runs/x")


def test_other_images_stop_before_the_first_training(tmp_path):
    put_images(tmp_path, "0" * 64)
    found = experiment(tmp_path, SHIPPED)
    assert found.catalog.sources["cifar10"].order is None, "images of another order are not fetched again unasked"
    with pytest.raises(ConfigError, match="trained on other images of 'cifar10'") as refused:
        served(found)
    source = {"source": "torchvision", "dataset": "CIFAR10", "order": f"{SHIPPED}/orders/cifar10.npz"}
    assert f"data: {json.dumps({'cifar10': source})}" in str(refused.value)
    there = tmp_path / "there"
    there.symlink_to(Path(SHIPPED, "fedsmoo-cifar10/runs/path3-200"))
    Path(tmp_path, "resources/cifar10/dataset.json").unlink()
    with pytest.raises(ConfigError, match=r"the images of 'cifar10' are not here.*fetch them first: snakemake"):
        served(experiment(tmp_path, str(there)))


def test_jobs_read_the_runs_that_the_call_chose(tmp_path, monkeypatch):
    found = experiment(ROOT, SHIPPED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(configuration.VARIABLE, "")
    monkeypatch.setattr(parsed_files, "_copy", None)
    configuration.write_copy(found.request.as_written(), found)
    assert dict(configuration.load(None).published) == dict(found.published)


@pytest.mark.parametrize("folders", [["nowhere"], ["results/{seed}"], "results"])
def test_a_wrong_folder_is_refused(tmp_path, folders):
    with pytest.raises(ConfigError, match=r"config.yaml or --config: published"):
        plan.load(ROOT, {"scale": "paper", "tables": [], "figures": [], "published": folders})


def test_a_damaged_record_is_refused(tmp_path):
    made.run(tmp_path / "there/x", {"round": [1]})
    (tmp_path / "there/x/run.json").write_text("{")
    with pytest.raises(DataError, match=r"there/x/run.json"):
        experiment(tmp_path, str(tmp_path / "there"))


def test_seconds_of_a_round_ask_for_no_published_run(tmp_path, monkeypatch):
    monkeypatch.delattr(plan.Experiment, "shown")
    timed = numbers.numbers(experiment(tmp_path, SHIPPED), "paper", "fedsmoo2023_T7", ["path3-100.seconds_per_round"])
    assert len(timed) == 8 and all(part.timed for part in timed)
