"""The accuracy on test images of each client."""

from __future__ import annotations

import csv

import numpy as np
import torch
from safetensors.torch import load_file

from flatfed.analysis.client_accuracy import client_accuracy
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.data import partition as partitions
from harness import Reference, description, job


def test_equals_plain_predictions_on_images_drawn_to_the_classes_of_each_client(tmp_path):
    folder = job(tmp_path, "fedavg", "run")
    inputs = AnalysisInputs(tmp_path / "data", tmp_path / "partition.npz", "cpu")
    client_accuracy(folder, inputs, tmp_path / "clients.csv", 12)
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
    for member, images in zip(reference.members, drawn, strict=True):  # in proportion, rounded by less than an image
        shares = [np.bincount(reference.y.numpy()[part], minlength=3) / len(part) for part in (member, images)]
        assert np.abs(shares[0] - shares[1]).max() < 1 / 12
