"""Which run of several folders serves as a requested one; each test has one rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import made
from flatfed.data import manifest, partition
from flatfed.errors import DataError
from flatfed.runs import store, versions
from flatfed.runs.store import Store
from shipped import EXP

REQUESTED = EXP.run("paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1)
DIGEST = manifest.DIGESTS["cifar10"][0]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(folder, *, so_far=False, label="", rounds=800, record=None, **changes) -> str:
    """Write a run with ``changes`` of the requested settings; return its folder."""
    settings = {**REQUESTED.config.as_json(), "precision": "bfloat16" if label else "float32", **changes}
    settings["protocol"] += label
    about = {"versions": versions.of_run(REQUESTED.config), "dataset_digest": DIGEST, **(record or {})}
    write = made.so_far if so_far else made.run
    return str(write(folder, {"round": [rounds], "test_accuracy": [0.1]}, settings=settings, **about))


def found(*folders, images=DIGEST, **options) -> str:
    """Return the folder in which a store of ``folders`` finds the requested run."""
    return Store(folders, **options).find(REQUESTED, images=images).path


def test_folders_are_asked_in_the_listed_order_after_results():
    for folder, finished in (("a/x", "2026-02-01"), ("b/x", "2026-01-01")):
        run(folder, record={"finished": finished})
    assert (found("a", "b"), found("b", "a")) == ("a/x", "b/x")
    run(REQUESTED.path)
    assert found("a", "b") == REQUESTED.path
    assert found("a", "b", alone=True) == "a/x", "a store alone does not read results/"


def test_of_one_folder_the_first_finished_run_serves():
    """As long as another, or longer: a run that is added later changes no table."""
    run("a/1", record={"finished": "2026-02-01"})
    run("a/2", record={"finished": "2026-01-01"}, label="~bfloat16")
    run("a/3", record={"finished": "2025-01-01", "diverged_at": 8}, rounds=7)
    assert found("a") == "a/2"


def test_a_run_in_results_of_other_settings_does_not_serve():
    run(REQUESTED.path, batch_size=7)
    run("a/x")
    assert found("a") == "a/x"
    assert found() == REQUESTED.path, "it is trained again there"


@pytest.mark.parametrize("forced", [[REQUESTED.record], ["train"]])
def test_a_forced_run_is_never_published(forced):
    run("a/x")
    assert found("a", forced=forced) == REQUESTED.path
    assert found("a", forced=["results/paper/runs/other/run.json", "table"]) == "a/x"


def test_precision_and_label_may_differ_and_the_requested_precision_goes_first():
    run("a/x", label="~bfloat16")
    published = Store(["a"]).find(REQUESTED, images=DIGEST)
    assert (published.path, published.protocol) == ("a/x", "fedsmoo-cifar10")
    assert (published.config.precision, published.config.protocol) == ("bfloat16", "fedsmoo-cifar10~bfloat16")
    run("b/x")
    assert found("a", "b") == "b/x"
    other = replace(REQUESTED, config=published.config, protocol=published.config.protocol)
    assert Store(["a", "b"]).find(other, images=DIGEST).path == "a/x"
    in_results = replace(other, path="results/paper/runs/y")
    assert Store().find(in_results) == in_results, "in results/ neither differs"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch_size": 7}, "batch_size is 7, here 50"),
        ({"precision": "bfloat16"}, 'precision is "bfloat16", here "float32"'),
        ({"record": {"versions": {"engine": 0}}}, "engine is version 0, now 1"),
        ({"record": {"versions": None}}, ""),
        ({"executor": {"cpu": "stacked", "cuda": "stacked"}, "checkpoint_every": 3}, ""),
    ],
    ids=["other settings", "precision without a label", "another version", "unknown versions", "other execution"],
)
def test_deciding_settings_and_versions_are_compared(capsys, changes, reason):
    run("a/x", **changes)
    assert found("a") == (REQUESTED.path if reason else "a/x")
    assert capsys.readouterr().err == (f"published: a/x: not the requested run: {reason}\n" if reason else "")
    alone = Store(["a"], alone=True)
    assert alone.find(REQUESTED).absent == bool(reason)
    assert alone.refused == ({"a/x": f"not the requested run: {reason}"} if reason else {})


def test_an_unfinished_run_serves_only_in_a_store_so_far():
    run("a/x", so_far=True, rounds=3)
    run("a/y", so_far=True, rounds=5)
    assert found("a") == REQUESTED.path
    assert found("a", alone=True, so_far=True) == "a/y"
    run("b/x")
    assert found("a", "b", alone=True, so_far=True) == "b/x", "a finished run goes first"


def test_other_images_are_refused_with_the_key_and_the_file():
    run("a/runs/x")
    with pytest.raises(DataError, match=r"a/runs/x: trained on other images of 'cifar10'.* `order: FILE`"):
        found("a", images="0" * 64)
    assert found("a", images=None) == "a/runs/x", "they are not here: the table compares them"
    Path("a/orders").mkdir()
    Path("a/orders/cifar10.npz").touch()
    for images, problem in {"0" * 64: "trained on other images", None: "images of 'cifar10' are not here yet"}.items():
        with pytest.raises(DataError, match=rf"{problem}.* `order: a/orders/cifar10.npz` to their source"):
            found("a", images=images)
    assert found("a") == "a/runs/x"
    assert found("a", images="0" * 64, alone=True) == "a/runs/x", "data are not compared"


def write_partition(spec) -> str:
    """Write a partition of one client at the place of the requested run; return its digest."""
    arrays = {"indices": np.arange(3), "offsets": np.array([0, 3]), "test": np.arange(2)}
    Path(REQUESTED.partition).parent.mkdir(parents=True, exist_ok=True)
    partition.write(REQUESTED.partition, {**arrays, "class_counts": np.array([[3]])}, spec)
    return partition.load(REQUESTED.partition).digest


def test_another_partition_is_refused_and_one_that_will_be_made_again_is_not_compared():
    spec = {**REQUESTED.config.partition.as_written(), "seed": 1, "dataset_digest": DIGEST}
    digest = write_partition(spec)
    run("a/x", record={"partition_digest": digest})
    assert found("a") == "a/x"
    run("a/x", record={"partition_digest": "1" * 64})
    with pytest.raises(DataError, match=rf"a/x: trained on another partition \(1{{12}}, not {digest[:12]} as results/"):
        found("a")
    assert found("a", alone=True) == "a/x"
    write_partition({**spec, "dataset_digest": "0" * 64})
    assert found("a") == "a/x"


def test_links_are_followed_once_and_hidden_folders_are_not():
    run("elsewhere/x")
    Path("a").mkdir()
    Path("a/link").symlink_to(Path("elsewhere").absolute())
    Path("a/again").symlink_to(Path("a").absolute())
    run("a/.hidden/x")
    assert [str(path) for path in store.run_folders("a")] == ["a/link/x"]
    assert found("a") == "a/link/x"


@pytest.mark.parametrize("file", ["run.json", "metrics.csv"])
def test_a_damaged_published_run_stops_the_call_and_is_left_out_of_a_store_alone(file):
    run("a/x")
    run("a/y")
    Path("a/x", file).write_text("{")
    with pytest.raises(DataError, match=f"published: a/x/{file}: "):
        found("a")
    alone = Store(["a"], alone=True)
    assert alone.find(REQUESTED).path == "a/y" and [*alone.refused] == ["a/x"]


def test_states_of_a_run():
    assert store.state(REQUESTED) == "missing"
    Path(REQUESTED.path).mkdir(parents=True)
    Path(REQUESTED.path, "checkpoint").touch()
    assert store.state(REQUESTED) == "begun"
    run(REQUESTED.path)
    assert store.state(REQUESTED) == "finished"
    run(REQUESTED.path, record={"versions": {"engine": 0}})
    assert store.state(REQUESTED) == "stale"
    run(REQUESTED.path, batch_size=7)
    assert store.state(REQUESTED) == "stale"
    Path(REQUESTED.record).write_text("{")
    assert store.state(REQUESTED) == "damaged"
