"""A tuning run: trained on the clients' images less a validation part, scored on that, blind to the test images."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from flatfed import cli, models
from flatfed.data import partition as partitions
from flatfed.engine.job import train as job
from flatfed.files import digest_arrays
from flatfed.runs.run_config import RunConfig
from harness import dealt_to, description, evaluated, write_problem

EVALUATION = {"every": 2, "sets": ["validation"], "batch_size": 7}


def tuned(folder: Path, out: str = "run", **changes) -> Path:
    """Run a tuning job in float32 on the problem in ``folder``, on the CPU; return its folder."""
    spec = description("fedsmoo", **{"validation": 0.2, "evaluation": EVALUATION, "precision": "float32", **changes})
    job.train(RunConfig(**spec), folder / "data", folder / "partition.npz", folder / out, device="cpu")
    return folder / out


def other_test_images(folder: Path) -> None:
    """Put noise of other labels in place of the problem's test images; all digests are again true."""
    images, labels = np.load(folder / "data/images.npy"), np.load(folder / "data/labels.npy")
    images[-20:] = np.random.default_rng(9).integers(0, 256, images[-20:].shape)
    labels[-20:] = (labels[-20:] + 1) % 3
    np.save(folder / "data/images.npy", images)
    np.save(folder / "data/labels.npy", labels)
    digest = digest_arrays(images=images, labels=labels)
    meta = json.loads((folder / "data/dataset.json").read_text())
    (folder / "data/dataset.json").write_text(json.dumps({**meta, "digest": digest}))
    arrays = dict(np.load(folder / "partition.npz"))
    arrays["spec"] = np.array(json.dumps({**json.loads(str(arrays["spec"])), "dataset_digest": digest}))
    np.savez(folder / "partition.npz", **arrays)


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def test_the_validation_part_by_hand(tmp_path):
    data, path = write_problem(tmp_path)
    out = tuned(tmp_path)
    labels, images = np.load(data / "labels.npy"), np.load(data / "images.npy")
    part = partitions.hold_out(partitions.load(path), labels, 0.2, seed=3).validation
    assert len(part) == 1 + 2 + 1 + 1 + 2 + 1
    model = models.build("cnn_tiny", (1, 8, 8), 3, {})
    model.load_state_dict(load_file(out / "model.safetensors"))
    logits = model((torch.from_numpy(images[part]).float() / 255 - 0.4) / 0.25)
    last = lines(out)[-1]
    expected = (logits.argmax(dim=1).numpy() == labels[part]).mean()
    assert float(last["validation_accuracy"]) == pytest.approx(expected, abs=1e-12)
    loss = cross_entropy(logits, torch.from_numpy(labels[part])).item()
    assert float(last["validation_loss"]) == pytest.approx(loss, rel=1e-5)
    assert [line["round"] for line in lines(out)] == ["2", "4"] and not [key for key in last if "test" in key]


def test_the_test_images_change_nothing(tmp_path):
    for name in ("one", "other"):
        write_problem(tmp_path / name)
    other_test_images(tmp_path / "other")
    one, other = (tuned(tmp_path / name) for name in ("one", "other"))
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert lines(one) == lines(other)
    plain = {"evaluation": {**EVALUATION, "sets": ["test"]}, "precision": "float32"}
    spec = description("fedsmoo", **plain)
    seen = []
    for name in ("one", "other"):
        place = tmp_path / name
        job.train(RunConfig(**spec), place / "data", place / "partition.npz", place / "plain", device="cpu")
        seen.append(lines(place / "plain"))
    assert seen[0] != seen[1], "which an ordinary run would have noticed"
    assert seen[0][-1]["train_loss"] != lines(one)[-1]["train_loss"], "and it trains on more images"


def test_a_tuning_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    write_problem(tmp_path)
    whole = tuned(tmp_path, "whole")
    advance = job.Simulation.advance

    def stop_in_round_4(self):
        if self.round == 3:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(job.Simulation, "advance", stop_in_round_4)
        tuned(tmp_path, "cut")
    cut = tuned(tmp_path, "cut")
    assert [session["from_round"] for session in json.loads((cut / "run.json").read_text())["sessions"]] == [0, 2]
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert lines(cut) == lines(whole)


def test_a_tuning_run_that_diverges_at_once_says_so(tmp_path):
    write_problem(tmp_path)
    out = tuned(tmp_path, learning_rate=1e30, clip_norm=None, evaluation={**EVALUATION, "every": 1})
    assert json.loads((out / "run.json").read_text())["diverged_at"] == 1
    assert lines(out) == []
    assert "validation_loss,validation_accuracy" in (out / "metrics.csv").read_text()


def test_its_seconds_can_be_measured(tmp_path):
    """On what is held out, since the test images are put away."""
    data, path = write_problem(tmp_path)
    spec = description("fedavg", validation=0.2, evaluation=EVALUATION, precision="float32")
    (tmp_path / "run.d.json").write_text(json.dumps(spec))
    words = ["time", "--run", tmp_path / "run.d.json", "--dataset", data, "--partition", path, "--rounds", 2]
    assert cli.main([*map(str, words), "--out", str(tmp_path / "timing.json"), "--device", "cpu"]) == 0
    measured = json.loads((tmp_path / "timing.json").read_text())
    assert measured["seconds_per_round"] > 0 and measured["evaluated"]["sets"] == ["validation", "train"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rounds_in_which_no_node_has_an_image_held_out_lack_that_column(tmp_path, seed):
    """Of small clients only some have a validation image, and in some rounds none of them trains."""
    data, _ = write_problem(tmp_path)
    nodes = {"topology": {"graph": "ring"}, "sampling": {"scheme": "bernoulli", "fraction": 0.2}, "seed": seed}
    sets = {"every": 1, "sets": ["validation", "nodes"], "batch_size": 7}
    spec = description("dfedavg", validation=0.1, evaluation=sets, rounds=8, precision="float32", **nodes)
    job.train(RunConfig(**spec), data, dealt_to(tmp_path, seed), tmp_path / "run", device="cpu")
    accuracies = [line["node_validation_accuracy"] for line in lines(tmp_path / "run")]
    assert len(accuracies) == 8 and all(text == "" or 0 <= float(text) <= 1 for text in accuracies)


def test_its_model_can_be_evaluated_again(tmp_path):
    write_problem(tmp_path)
    out = tuned(tmp_path)
    again = evaluated(out, tmp_path / "data", tmp_path / "partition.npz")
    assert again["validation_accuracy"] == float(lines(out)[-1]["validation_accuracy"])
