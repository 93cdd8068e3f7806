"""The line on a set-up counts the images that were read; doubts about images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import made
from flatfed import plan
from flatfed.data import sources
from flatfed.errors import ConfigError, DataError
from flatfed.plan import at_scale
from flatfed.runs.paths import Paths
from flatfed.tables import set_up
from shipped import EXP

ARCHIVE = {"source": "torchvision", "dataset": "CIFAR10"}
COLUMN = "fedsmoo2023_T1", ["cifar10-dir0.6-100"]
ABSENT = "declared; they are not on this machine"


def images(path: Path, train: int, test: int) -> dict:
    """Write ``path`` with random images of CIFAR-10's shape; return it as a source that declares their numbers."""
    rng = np.random.default_rng(0)
    parts = {"train": train, "test": test}
    arrays = {f"{part}_images": rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for part, n in parts.items()}
    np.savez(path, **arrays, **{f"{part}_labels": np.arange(n) % 10 for part, n in parts.items()})
    return {"source": "npz", "path": str(path), "images": parts}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a folder with a small configuration and the printed numbers of all tables, which errata are of."""
    return made.small(tmp_path_factory.mktemp("config"), "errata")


@pytest.fixture
def loaded(tmp_path, root):
    """A function that loads the configuration with a source of CIFAR-10; its data are in a folder of the test."""

    def load(source: dict) -> plan.Experiment:
        config = {"scale": "preview", "tables": ["fedsmoo2023_T1"], "figures": [], "data": {"cifar10": source}}
        return plan.load(root, config, paths=Paths(resources=str(tmp_path / "resources")))

    return load


def fetched(exp: plan.Experiment, name: str = "cifar10") -> dict:
    """Fetch a data set as Snakemake does; return its dataset.json."""
    folder = Path(exp.paths.dataset(name))
    sources.fetch(exp.catalog.dataset_spec(name).as_written(), folder)
    return json.loads((folder / "dataset.json").read_text())


def line(exp: plan.Experiment, scale: str, counts=None) -> str:
    """Return what a table of FedSMOO's set-up on CIFAR-10 says of its images; ``counts``: of the runs."""
    setting = set_up.setting(at_scale.table(exp, scale, *COLUMN), counts or {})
    return setting.partition(", 100 clients")[0].partition(", 30 clients")[0]


def test_a_declared_subset_counts_wherever_images_are_counted(loaded, tmp_path) -> None:
    part = loaded(images(tmp_path / "part.npz", 600, 20))
    ids = ("paper", "fedsmoo-cifar10", "central-dir0.6-100", "centralised_sgd", 1)
    steps = [exp.run(*ids).config.local_steps for exp in (EXP, part)]
    assert steps == [10 * 5 * 10, 10 * 5 * 1], "of 10 clients, 5 epochs of 500 or 6 images in batches of 50"
    few = loaded(images(tmp_path / "few.npz", 60, 20))
    with pytest.raises(ConfigError, match=r"clients: 100 is not allowed; .*; at most 60 images of .*cifar10"):
        few.run("paper", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1)


def test_the_line_counts_the_images_that_were_read(loaded, tmp_path) -> None:
    part = loaded(images(tmp_path / "part.npz", 600, 20))
    assert line(part, "paper") == f"CIFAR-10 (620 images of 32x32 {ABSENT})"
    fetched(part)
    fetched(part, "digits")
    for exp in (part, loaded(ARCHIVE)):
        assert line(exp, "paper") == "CIFAR-10 (620 of 60,000 images of 32x32)", "of those that were fetched"
    assert line(part, "preview") == "digits (1,797 images of 8x8)"
    Path(part.paths.manifest("cifar10")).write_text("{}")
    with pytest.raises(DataError, match=r"resources/cifar10/dataset\.json: not that of a dataset"):
        line(part, "paper")


def test_where_the_data_are_not_the_records_of_the_runs_count_them(loaded, tmp_path) -> None:
    exp = loaded(ARCHIVE)
    for numbers, words in (
        ({60_000}, "60,000 images of 32x32"),
        ({600}, "600 of 60,000 images of 32x32"),
        ({600, 60_000}, "600 or 60,000 of 60,000 images of 32x32"),
        (set(), "60,000 images of 32x32 declared; the records of the runs do not count them"),
    ):
        assert line(exp, "paper", {"digits": {2}, "cifar10": numbers}) == f"CIFAR-10 ({words})"
    assert ABSENT in line(exp, "paper", {"digits": {2}})
    fetched(loaded(images(tmp_path / "f.npz", 60, 20)))
    assert line(exp, "paper", {"cifar10": {60_000}}) == "CIFAR-10 (60,000 images of 32x32)", "as many as the runs had"


def record(images: dict | None, dataset: str = "cifar10", digest: str = "") -> SimpleNamespace:
    """Return what a record says of its images."""
    config = SimpleNamespace(dataset=SimpleNamespace(name=dataset))
    return SimpleNamespace(config=config, images=images, dataset_digest=digest)


def test_the_images_of_records_are_counted_by_dataset() -> None:
    records = [record({"train": 500, "test": 100}), record({"train": 50, "test": 10}), record(None, "digits")]
    assert set_up.image_counts([*records, records[0]]) == {"cifar10": {600, 60}, "digits": set()}


def test_a_table_names_statistics_of_the_first_pass_alone():
    runs = [EXP.run("paper", "fedsmoo-cifar10", "dir0.6-100", name, 1) for name in ("fedavg", "fedsam")]
    changed = replace(runs[1], config=runs[1].config.changed(batch_norm_second_pass=False))
    assert set_up.training([runs[0], changed], {"fedavg": "FedAvg", "fedsam": "FedSAM"}) == [
        "Local training of FedSAM: running statistics of BatchNorm from the first pass of a step alone."
    ]


def test_a_table_names_the_steps_of_the_learning_rate_that_a_preview_never_reaches():
    run = EXP.run("preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1)
    schedule = {"kind": "step", "milestones": [10, 400, 600], "factor": 0.1}
    changed = replace(run, config=run.config.changed(learning_rate_schedule=schedule))
    (line,) = set_up.training([changed], {"fedavg": "FedAvg"})
    late = f"(400 and 600: never reached in {run.config.rounds} rounds)"
    assert line.endswith(f"the learning rate is multiplied by 0.1 after 10 and 400 and 600 rounds {late}.")


def test_a_table_names_the_protocols_if_a_row_trains_otherwise_in_another():
    one, other = (EXP.run("paper", "fedsmoo-cifar10", "dir0.6-100", name, 1) for name in ("fedavg", "fedsam"))
    changed = [
        replace(run, protocol="fedsmoo-cifar10~smoothed", config=run.config.changed(label_smoothing=0.1))
        for run in (one, other)
    ]
    labels = {"fedavg": "FedAvg", "fedsam": "FedSAM"}
    text = "label smoothing 0.1 (also in train_loss; evaluations, Hessians and surfaces have none)"
    assert set_up.training([one, *changed], labels) == [
        f"Local training of FedAvg in fedsmoo-cifar10~smoothed: {text}.",
        f"Local training of FedSAM: {text}.",
    ]
    assert set_up.training([one, other, *changed], labels) == [
        f"Local training of FedAvg, FedSAM in fedsmoo-cifar10~smoothed: {text}."
    ]


def test_a_table_names_the_protocols_if_a_row_follows_another_source_in_another():
    run = EXP.run("paper", "fedsmoo-cifar10", "dir0.6-100", "fedsmoo", 1)
    update = run.config.as_json()["update"]
    changed = run.config.changed(update={**update, "params": {**update["params"], "s": "paper"}})
    lines = set_up.choices([run, replace(run, protocol="mine", config=changed)], {"fedsmoo": "FedSMOO"})
    assert [line.split(" is followed")[0] for line in lines] == [
        "FedSMOO in fedsmoo-cifar10: the official code",
        "FedSMOO in mine: the paper",
    ]
