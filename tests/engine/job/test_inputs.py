"""The data of a run: refused if they are others; without the test images and with held-out ones in a tuning run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.data import partition as partitions
from flatfed.engine.job.train import train
from flatfed.errors import DataError
from flatfed.files import digest_arrays
from flatfed.runs.run_config import RunConfig
from harness import assert_same, dealt_to, description, evaluated, job, lines, write_problem

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


def test_the_validation_part_by_hand(tmp_path):
    data, path = write_problem(tmp_path)
    out = job(tmp_path, "fedsmoo", "run", **TUNING)
    labels, images = np.load(data / "labels.npy"), np.load(data / "images.npy")
    part = partitions.hold_out(partitions.load(path), labels, 0.2, seed=3).validation
    assert len(part) == 1 + 2 + 1 + 1 + 2 + 1
    model = models.build("cnn_tiny", (1, 8, 8), 3, {})
    model.load_state_dict(load_file(out / "model.safetensors"))
    logits = model((torch.from_numpy(images[part]).float() / 255 - 0.4) / 0.25)
    last = lines(out)[-1]
    assert float(last["validation_accuracy"]) == (logits.argmax(dim=1).numpy() == labels[part]).mean()
    loss = cross_entropy(logits, torch.from_numpy(labels[part])).item()
    assert float(last["validation_loss"]) == pytest.approx(loss, rel=1e-5)
    assert [line["round"] for line in lines(out)] == ["2", "4"] and not [key for key in last if "test" in key]
    assert evaluated(out, data, path)["validation_accuracy"] == float(last["validation_accuracy"])


def other_test_images(folder: Path) -> None:
    """Put noise of other labels in place of the problem's test images; all digests are again true."""
    arrays = {name: np.load(folder / f"data/{name}.npy") for name in ("images", "labels")}
    arrays["images"][-20:] = np.random.default_rng(9).integers(0, 256, arrays["images"][-20:].shape)
    arrays["labels"][-20:] = (arrays["labels"][-20:] + 1) % 3
    for name, array in arrays.items():
        np.save(folder / f"data/{name}.npy", array)
    digest, about = digest_arrays(**arrays), folder / "data/dataset.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "digest": digest}))
    dealt = dict(np.load(folder / "partition.npz"))
    spec = {**json.loads(str(dealt["spec"])), "dataset_digest": digest}
    np.savez(folder / "partition.npz", **{**dealt, "spec": np.array(json.dumps(spec))})


def test_the_test_images_change_nothing(tmp_path):
    for name in ("one", "other"):
        write_problem(tmp_path / name)
    other_test_images(tmp_path / "other")
    one, other = (job(tmp_path / name, "fedsmoo", "run", **TUNING) for name in ("one", "other"))
    assert_same(one, other)
    plain = [lines(job(tmp_path / name, "fedsmoo", "plain")) for name in ("one", "other")]
    assert plain[0] != plain[1], "which an ordinary run would have noticed"
    assert plain[0][-1]["train_loss"] != lines(one)[-1]["train_loss"], "and it trains on more images"


def test_rounds_in_which_no_node_has_an_image_held_out_lack_that_column(tmp_path):
    """Of small clients only some have a validation image, and in some rounds none of them trains."""
    data, _ = write_problem(tmp_path)
    few = {"topology": {"graph": "ring"}, "sampling": {"scheme": "bernoulli", "fraction": 0.2}, "seed": 1}
    few["evaluation"] = {"every": 1, "sets": ["validation", "nodes"], "batch_size": 7}
    spec = description("dfedavg", validation=0.1, rounds=8, precision="float32", **few)
    train(RunConfig(**spec), data, dealt_to(tmp_path, 1), tmp_path / "run", device="cpu")
    accuracies = [line["node_validation_accuracy"] for line in lines(tmp_path / "run")]
    assert len(accuracies) == 8 and all(text == "" or 0 <= float(text) <= 1 for text in accuracies)
    assert "" in accuracies and any(accuracies)
