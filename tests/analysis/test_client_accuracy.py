"""The accuracy on test images of each client."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from flatfed import cli
from flatfed.analysis import client_accuracy
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.data import partition as partitions
from flatfed.files import digest_file
from flatfed.runs import client_accuracies
from harness import Reference, description, job


def test_equals_plain_predictions_on_images_drawn_to_the_classes_of_each_client(tmp_path, monkeypatch):
    folder = job(tmp_path, "fedavg", "run")
    inputs = AnalysisInputs(tmp_path / "data", tmp_path / "partition.npz", "cpu")
    monkeypatch.setattr(client_accuracy, "IMAGES", 12)
    client_accuracy.client_accuracy(folder, inputs, tmp_path / "clients.csv")
    with open(tmp_path / "clients.csv", newline="") as file:
        rows = {line.pop("client"): line for line in csv.DictReader(file)}
    dealt = partitions.load(tmp_path / "partition.npz")
    reference = Reference(tmp_path, description("fedavg"))
    reference.model.load_state_dict(load_file(folder / "model.safetensors"))
    with torch.no_grad():
        right = (reference.model(reference.x).argmax(dim=1) == reference.y).double().numpy()
    drawn = partitions.draw_client_test(reference.y.numpy(), reference.members, dealt.test, 12, 3)
    expected = np.array([right[images].mean() for images in drawn])
    assert [float(rows[str(i)]["accuracy"]) for i in range(6)] == expected.tolist()
    assert [int(rows[str(i)]["train_images"]) for i in range(6)] == [7, 12, 5, 9, 10, 6]
    summary = [float(rows[name]["accuracy"]) for name in ("mean", "worst_tenth", "median", "deviation")]
    assert summary == [expected.mean(), expected.min(), np.median(expected), expected.std()]
    assert {line["model_sha256"] for line in rows.values()} == {digest_file(folder / "model.safetensors")}
    for member, images in zip(reference.members, drawn, strict=True):  # in proportion, rounded by less than an image
        shares = [np.bincount(reference.y.numpy()[part], minlength=3) / len(part) for part in (member, images)]
        assert np.abs(shares[0] - shares[1]).max() < 1 / 12


@pytest.mark.parametrize(("clients", "expected"), [(10, 0.3), (11, 0.35), (1, 0.3)])
def test_the_worst_tenth_is_rounded_up(clients, expected):
    """0.3, 0.4, 0.5 and so on, from the last client to the first."""
    found = client_accuracy.summarise(0.3 + 0.1 * np.arange(clients)[::-1])
    assert found["worst_tenth"] == pytest.approx(expected)


def test_a_run_that_diverged_has_clients_without_accuracies(problem, capsys):
    words = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu", "--out", "clients.csv"]
    assert cli.main(["clients", "wild", *words]) == 0
    accuracies, model = client_accuracies.read("clients.csv")
    assert np.isnan([*accuracies.values()]).all() and model == digest_file("wild/model.safetensors")
    assert "6 clients: diverged in round" in capsys.readouterr().err
