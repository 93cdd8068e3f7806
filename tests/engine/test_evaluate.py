"""The evaluations of a run: test, training and held-out images, each client or node; against one forward pass."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import algorithms
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import batches, costs
from flatfed.engine.job import assembly
from flatfed.engine.simulation import Simulation
from flatfed.runs.run_config import RunConfig
from harness import Reference, description, needs, simulation, write_problem
from samples import sampled


def sets(*names: str, every: int = 1) -> dict:
    return {"evaluation": {"every": every, "sets": list(names), "batch_size": 7}}


def of_clients(folder, spec: dict, change, executor: str = "sequential") -> tuple[Simulation, partitions.Partition]:
    """Return the simulation of ``spec`` on the problem's partition after ``change`` (partition, labels)."""
    write_problem(folder)
    data, dealt = datasets.load(folder / "data"), partitions.load(folder / "partition.npz")
    dealt = change(dealt, data.labels)
    return assembly.simulation(RunConfig(**spec), data, dealt, torch.device("cpu"), executor), dealt


def with_client_tests(dealt: partitions.Partition, labels: np.ndarray) -> partitions.Partition:
    """Return the partition with test images of each client, some twice."""
    return replace(dealt, client_test=[dealt.test[[i, 3 * i, 3 * i, 2 * i + 1]] for i in range(6)])


def outputs(folder, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Return logits, labels and hits of model ``row`` on all images of the problem."""
    reference = Reference(folder, description("fedavg"))
    vector_to_parameters(row, reference.model.parameters())
    with torch.no_grad():
        logits = reference.model(reference.x)
    return logits, reference.y, (logits.argmax(dim=1) == reference.y).double().numpy()


def assert_scores(line: dict, key: str, scores: list[float]) -> None:
    """Assert mean and spread of the clients' ``scores``, which differ."""
    assert line[f"{key}_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
    assert line[f"{key}_std"] == pytest.approx(np.std(scores), abs=1e-15) and np.std(scores) > 0


def test_sets_by_hand(tmp_path):
    spec = description("fedavg", **sets("test", "train", "clients"))
    run, dealt = of_clients(tmp_path, spec, with_client_tests)
    line = run.advance()
    logits, labels, right = outputs(tmp_path, run.server["w"][0])
    assert_scores(line, "client_train", [right[part].mean() for part in run.members])
    assert_scores(line, "client_test", [right[part].mean() for part in dealt.client_test])
    for key, loss, index in (("test", "test_loss", dealt.test), ("train", "full_train_loss", dealt.indices)):
        assert line[f"{key}_accuracy"] == pytest.approx(right[index].mean(), abs=1e-15)
        assert line[loss] == pytest.approx(cross_entropy(logits[index], labels[index]).item(), rel=1e-12)


def test_clients_on_their_validation_images_by_hand(tmp_path):
    """Tuning reads them if targets are of the mean over clients; a client that gave up none has no part in it."""

    def held_out(dealt, labels):
        held = partitions.hold_out(dealt, labels, 0.2, 3)
        return replace(held, client_validation=[np.arange(0), *held.client_validation[1:]])

    spec = description("fedavg", validation=0.2, **sets("validation", "clients"))
    run, held = of_clients(tmp_path, spec, held_out)
    line = run.advance()
    *_, right = outputs(tmp_path, run.server["w"][0])
    assert_scores(line, "client_validation", [right[part].mean() for part in held.client_validation if len(part)])
    assert line["validation_accuracy"] == pytest.approx(right[held.validation].mean(), abs=1e-15)
    assert not {"train_accuracy", "test_accuracy", "client_test_std"} & line.keys(), "sets that are not requested"


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked"], ["stacked"]))
@pytest.mark.parametrize("name", sampled([name for name in algorithms.names() if algorithms.load(name).decentralised]))
def test_nodes_by_hand(tmp_path, monkeypatch, name, executor):
    """The model of each node as it leaves local training, on training images and test images of its own."""
    spec = description(name, **needs(name), **sets("test", "train", "nodes", every=2))
    run, dealt = of_clients(tmp_path, spec, with_client_tests, executor)
    finish, trained = run.algorithm.finish, []

    def noted(w, ctx):
        state, uploads = finish(w, ctx)
        trained.extend(w.clone())
        return state, uploads

    monkeypatch.setattr(run.algorithm, "finish", noted)
    order = batches.longest_first(np.arange(6), run.sizes, run.schedule)
    for _ in range(2):
        assert run.advance() is None, "only rounds that are evaluated have numbers"
        trained.clear()
        line = run.advance()
        for key, parts in (("train", run.members), ("test", dealt.client_test)):
            scores = [outputs(tmp_path, row)[2][parts[node]].mean() for node, row in zip(order, trained, strict=True)]
            assert line[f"node_{key}_accuracy"] == pytest.approx(np.mean(scores), abs=1e-15)
        assert line["node_train_accuracy"] != line["train_accuracy"], "of the mean model"


def test_nodes_take_the_seconds_of_evaluation(tmp_path, monkeypatch):
    """By a clock that stands still but for their evaluation."""
    now = [0.0]
    monkeypatch.setattr(costs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    run = simulation(tmp_path, description("dfedsam", **needs("dfedsam"), **sets("nodes", "test")))
    monkeypatch.setattr(run.evaluate, "nodes", lambda *_: now.append(now.pop() + 7) or {})
    assert run.advance()["seconds"] == 0
    assert run.clock.seconds == {"training": 0, "evaluation": 7}
