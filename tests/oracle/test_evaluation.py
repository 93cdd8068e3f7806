"""What a run evaluates: test images, training images, every client by itself; against one forward pass by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from harness import Reference, description, simulation, write_problem
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine.simulation import Simulation


def outputs(folder, spec, row) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits and labels of all images of the problem."""
    reference = Reference(folder, spec)
    vector_to_parameters(row, reference.model.parameters())
    with torch.no_grad():
        return reference.model(reference.x), reference.y


def test_sets_by_hand(tmp_path):
    write_problem(tmp_path)
    evaluation = {"every": 1, "sets": ["test", "train", "clients"], "batch_size": 7}
    spec = description("fedavg", evaluation=evaluation)
    data, dealt = datasets.load(tmp_path / "data"), partitions.load(tmp_path / "partition.npz")
    drawn = [np.asarray(dealt.test)[[i, 3 * i, 3 * i]] for i in range(6)]
    run = Simulation(spec, data, replace(dealt, client_test=drawn), torch.device("cpu"), "sequential")
    line = run.advance()
    logits, labels = outputs(tmp_path, spec, run.server["w"][0])
    right = (logits.argmax(dim=1) == labels).double().numpy()
    own = np.split(dealt.indices, dealt.offsets[1:-1])
    for name, parts in {"train": own, "test": drawn}.items():
        scores = [right[part].mean() for part in parts]
        assert line[f"client_{name}_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
        assert line[f"client_{name}_std"] == pytest.approx(np.std(scores), abs=1e-15) and np.std(scores) > 0
    for key, index in {"test": dealt.test, "train": dealt.indices}.items():
        assert line[f"{key}_accuracy"] == pytest.approx(right[index].mean(), abs=1e-15)
        loss = line["full_train_loss" if key == "train" else "test_loss"]
        assert loss == pytest.approx(cross_entropy(logits[index], labels[index]).item(), rel=1e-12)


def test_what_is_not_asked_for_is_not_there(tmp_path):
    assert not {"train_accuracy", "client_train_std"} & simulation(tmp_path, description("fedavg")).advance().keys()
    asked = description("fedavg", evaluation={"every": 1, "sets": ["test", "clients"], "batch_size": 7})
    line = simulation(tmp_path, asked).advance()
    assert "client_train_std" in line and not {"train_accuracy", "client_test_std"} & line.keys()
