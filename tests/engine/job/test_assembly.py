"""The data of a run: refused if they are others; without the test images and with held-out ones in a tuning run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine.job.assembly import load_data
from flatfed.errors import DataError
from flatfed.runs.run_config import RunConfig
from harness import assert_same, description, job, lines, write_problem

TUNING = {"validation": 0.2, "evaluation": {"every": 2, "sets": ["validation"], "batch_size": 7}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": {"shape": [3, 32, 32], "mean": [0] * 3, "std": [1] * 3}}, r"shape \[1, 8, 8\].*has \[3, 32, 32\]"),
        ({"dataset": {"classes": 4}}, "classes 3, but dataset 'problem' of the run has 4"),
        ({"partition": {"clients": 9, "scheme": "shards"}}, "the partition of the run: clients is 6, the run has 9"),
    ],
)
def test_data_of_another_run_are_refused(tmp_path, changes, message):
    dataset = {**description("fedavg")["dataset"], **changes.get("dataset", {})}
    with pytest.raises(DataError, match=message):
        job(tmp_path, "fedavg", "run", **{**changes, "dataset": dataset})


def test_the_images_held_out_are_those_of_the_seed(tmp_path):
    places = write_problem(tmp_path)
    data, dealt = load_data(RunConfig(**description("fedsmoo", **TUNING)), *places)
    expected = partitions.hold_out(partitions.load(places[1]), data.labels, 0.2, seed=3)
    assert len(dealt.validation) == 1 + 2 + 1 + 1 + 2 + 1
    for name in ("indices", "offsets", "validation"):
        assert np.array_equal(getattr(dealt, name), getattr(expected, name)), name


def test_the_test_images_change_nothing_in_a_tuning_run(tmp_path, monkeypatch):
    def trained(out: str) -> list[Path]:
        return [job(tmp_path, "fedsmoo", f"{out}{number}", **changes) for number, changes in enumerate((TUNING, {}))]

    load, one = datasets.load, trained("one")

    def other_test_images(folder):
        data = load(folder)
        images, labels = data.images.copy(), data.labels.copy()
        images[-20:], labels[-20:] = 255 - images[-20:], (labels[-20:] + 1) % 3
        return replace(data, images=images, labels=labels)

    monkeypatch.setattr(datasets, "load", other_test_images)
    monkeypatch.setattr(datasets, "verify", lambda folder: None)
    other = trained("other")
    assert_same(one[0], other[0])
    assert lines(one[1]) != lines(other[1]), "which an ordinary run would have noticed"
    columns = lines(one[0])[-1]
    assert columns["round"] == "4" and not [key for key in columns if "test" in key]
    assert columns["train_loss"] != lines(one[1])[-1]["train_loss"], "and it trains on fewer images"
