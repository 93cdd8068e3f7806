"""What a run evaluates: test and training images, every client or node by itself; against one forward pass by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import algorithms
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import batches
from flatfed.engine.job import assembly
from flatfed.runs.run_config import RunConfig
from harness import Reference, description, needs, simulation, write_problem


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
    run = assembly.simulation(
        RunConfig(**spec), data, replace(dealt, client_test=drawn), torch.device("cpu"), "sequential"
    )
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


def test_clients_on_their_own_validation_images_by_hand(tmp_path):
    """What tuning reads where targets are of the mean over clients; a client that gave up none has no part in it."""
    write_problem(tmp_path)
    evaluation = {"every": 1, "sets": ["validation", "clients"], "batch_size": 7}
    spec = description("fedavg", evaluation=evaluation, validation=0.2)
    data, whole = datasets.load(tmp_path / "data"), partitions.load(tmp_path / "partition.npz")
    held = partitions.hold_out(whole, data.labels, 0.2, 3)
    own = [part for part in held.client_validation[1:] if len(part)]
    held = replace(held, client_validation=[np.arange(0), *own])
    run = assembly.simulation(RunConfig(**spec), data, held, torch.device("cpu"), "sequential")
    line = run.advance()
    logits, labels = outputs(tmp_path, description("fedavg"), run.server["w"][0])
    right = (logits.argmax(dim=1) == labels).double().numpy()
    scores = [right[part].mean() for part in own]
    assert line["client_validation_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
    assert line["client_validation_std"] == pytest.approx(np.std(scores), abs=1e-15) and np.std(scores) > 0
    assert line["validation_accuracy"] == pytest.approx(right[held.validation].mean(), abs=1e-15)


def test_what_is_not_asked_for_is_not_there(tmp_path):
    assert not {"train_accuracy", "client_train_std"} & simulation(tmp_path, description("fedavg")).advance().keys()
    asked = description("fedavg", evaluation={"every": 1, "sets": ["test", "clients"], "batch_size": 7})
    line = simulation(tmp_path, asked).advance()
    assert "client_train_std" in line and not {"train_accuracy", "client_test_std"} & line.keys()


def trained_by_hand(folder, spec, model: torch.Tensor, node: int, round_: int) -> torch.Tensor:
    """Return node's model after its local steps of SGD from ``model``, in plain tensors."""
    reference, lr = Reference(folder, spec), spec["learning_rate"] * spec["learning_rate_decay"] ** round_
    for batch in reference.batches(node, round_):
        g = reference.gradient(model, batch)
        g = g * min(1.0, spec["clip_norm"] / (float(g.norm()) + 1e-6))
        model = model - lr * (g + spec["weight_decay"] * model)
    return model


NODES = {"evaluation": {"every": 1, "sets": ["test", "train", "nodes"], "batch_size": 5}}


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_nodes_by_hand(tmp_path, executor):
    """DFedAvg on a ring, two rounds by hand: each node's own model on its own images, before it is mixed."""
    spec = description("dfedavg", **needs("dfedavg"), **NODES)
    run = simulation(tmp_path, spec, executor)
    reference = Reference(tmp_path, spec)
    ring = sum(np.roll(np.eye(reference.m), shift, axis=1) for shift in (-1, 0, 1)) / 3
    models = [reference.w] * reference.m
    for round_ in range(2):
        models = [trained_by_hand(tmp_path, spec, w, node, round_) for node, w in enumerate(models)]
        scores, mixed = [], torch.from_numpy(ring) @ torch.stack(models)
        afterwards = []
        for node, members in enumerate(reference.members):
            for row, found in ((models[node], scores), (mixed[node], afterwards)):
                logits, labels = outputs(tmp_path, spec, row)
                found.append(float((logits[members].argmax(dim=1) == labels[members]).double().mean()))
        line = run.advance()
        assert line["node_train_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
        assert np.mean(scores) not in (line["train_accuracy"], np.mean(afterwards)), "else the problem tells nothing"
        sizes = [len(members) for members in reference.members]
        assert np.mean(scores) != pytest.approx(np.average(scores, weights=sizes)), "every node counts alike"
        models = list(mixed)


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_nodes_on_test_images_of_their_own_by_hand(tmp_path, executor):
    """What DisPFL's code prints: each node's own model, on the test images drawn to its labels, before it is mixed."""
    write_problem(tmp_path)
    spec = description("dfedavg", **needs("dfedavg"), **NODES)
    data, dealt = datasets.load(tmp_path / "data"), partitions.load(tmp_path / "partition.npz")
    drawn = [np.asarray(dealt.test)[[i, 3 * i, 3 * i, 2 * i + 1]] for i in range(len(dealt.offsets) - 1)]
    run = assembly.simulation(RunConfig(**spec), data, replace(dealt, client_test=drawn), torch.device("cpu"), executor)
    reference = Reference(tmp_path, spec)
    models = [trained_by_hand(tmp_path, spec, reference.w, node, 0) for node in range(reference.m)]
    line = run.advance()
    for name, parts in (("train", reference.members), ("test", drawn)):
        scores = []
        for row, part in zip(models, parts, strict=True):
            logits, labels = outputs(tmp_path, spec, row)
            scores.append(float((logits[part].argmax(dim=1) == labels[part]).double().mean()))
        assert line[f"node_{name}_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
        assert np.std(scores) > 0


@pytest.mark.parametrize("name", [name for name in algorithms.names() if algorithms.load(name).decentralised])
def test_nodes_are_what_a_slow_second_evaluation_finds(tmp_path, monkeypatch, name):
    """Image by image, of the models that leave local training, whatever the algorithm does with them afterwards."""
    spec = description(name, **needs(name), **{**NODES, "evaluation": {**NODES["evaluation"], "every": 2}})
    run = simulation(tmp_path, spec)
    reference, seen = Reference(tmp_path, spec), {}
    finish = run.algorithm.finish

    def noted(w, ctx):
        found = finish(w, ctx)
        seen["w"] = w.clone()
        return found

    monkeypatch.setattr(run.algorithm, "finish", noted)
    order = batches.longest_first(np.arange(run.client_count), run.sizes, run.schedule)
    for _ in range(2):
        assert run.advance() is None, "only rounds that are evaluated have numbers"
        line = run.advance()
        scores = []
        for node, row in zip(order, seen["w"], strict=True):
            vector_to_parameters(row, reference.model.parameters())
            with torch.no_grad():
                right = [int(reference.model(reference.x[[i]]).argmax() == reference.y[i]) for i in run.members[node]]
            scores.append(np.mean(right))
        assert line["node_train_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)


def test_nodes_take_the_seconds_of_evaluation(tmp_path, monkeypatch):
    run = simulation(tmp_path, description("dfedsam", **needs("dfedsam"), **NODES))
    nodes = run.evaluate.nodes

    def slow(*arguments):
        time.sleep(0.3)
        return nodes(*arguments)

    monkeypatch.setattr(run.evaluate, "nodes", slow)
    line = run.advance()
    assert run.clock.seconds["evaluation"] > 0.3 and line["seconds"] == pytest.approx(
        run.clock.seconds["training"], abs=1e-3
    )
    before = simulation(tmp_path, description("dfedsam", **needs("dfedsam"), **NODES))
    before.advance()
    assert run.clock.seconds["training"] < before.clock.seconds["training"] + 0.25


def test_rows_with_a_server_have_no_nodes(tmp_path):
    line = simulation(tmp_path, description("fedavg", **NODES)).advance()
    assert "train_accuracy" in line and "node_train_accuracy" not in line
    asked = description("dfedavg", **needs("dfedavg"))
    assert "node_train_accuracy" not in simulation(tmp_path, asked).advance()
