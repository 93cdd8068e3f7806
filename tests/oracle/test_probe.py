"""Sharpness and perturbation drift along the way: against the definitions, and that looking changes nothing."""

from __future__ import annotations

import csv
import json

import pytest
import torch
from harness import Reference, description, needs, simulation, sizes, write_problem
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import algorithms
from flatfed.engine.train import train

PROBE = {"every": 2, "images": 49, "rho": 0.05, "m": 10}


def loss(reference: Reference, w: torch.Tensor, index) -> float:
    vector_to_parameters(w, reference.model.parameters())
    with torch.no_grad():
        return cross_entropy(reference.model(reference.x[index]), reference.y[index]).item()


@pytest.mark.parametrize("name", algorithms.names())
def test_looking_changes_nothing(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **needs(name), rounds=3)
    plain, probed = simulation(tmp_path, spec), simulation(tmp_path, {**spec, "probe": PROBE})
    for _ in range(3):
        line, other = plain.advance(), probed.advance()
        assert {**line, "seconds": 0} == {**other, "seconds": 0}
    for one, two in ((plain.server, probed.server), (plain.state.store, probed.state.store)):
        assert all(torch.equal(one[key], two[key]) for key in one)
    assert [found["round"] for found in probed.probes] == [0, 2, 3] and plain.probes == []
    perturbs = algorithms.load(name).gradients_per_step == 2 or "lesam" in name
    served = not algorithms.load(name).decentralised
    assert (probed.probes[1]["perturbation_drift"] is not None) == (perturbs and served)
    assert probed.probes[-1]["perturbation_drift"] is None


def test_a_probed_run_writes_the_same_files_and_what_looking_cost(tmp_path):
    write_problem(tmp_path)
    spec = description("fedsam", rounds=3)
    for name, about in (("plain", spec), ("probed", {**spec, "probe": PROBE})):
        train(about, tmp_path / "data", tmp_path / "partition.npz", tmp_path / name, device="cpu")
    plain, probed = tmp_path / "plain", tmp_path / "probed"
    assert (plain / "model.safetensors").read_bytes() == (probed / "model.safetensors").read_bytes()
    tables, records = [], []
    for folder in (plain, probed):
        with open(folder / "metrics.csv", newline="") as file:
            tables.append([{**line, "seconds": ""} for line in csv.DictReader(file)])
        records.append(json.loads((folder / "run.json").read_text()))
    assert tables[0] == tables[1] and records[0]["probes"] == []
    assert records[0]["gradient_evaluations"] == records[1]["gradient_evaluations"]
    assert [found["round"] for found in records[1]["probes"]] == [0, 2, 3]
    assert all(found["seconds"] > 0 for found in records[1]["probes"])


def test_sharpness_is_the_rise_of_the_loss_one_step_uphill(tmp_path):
    spec = {**description("fedavg"), "probe": PROBE}
    run, reference = simulation(tmp_path, spec), Reference(tmp_path, spec)
    w, rho = run.server["w"][0].clone(), PROBE["rho"]
    run.advance()
    images = run.probe.images.numpy()
    assert len(images) == 49 == len(set(images.tolist()))

    def rise(index) -> float:
        g = reference.gradient(w, index)
        return loss(reference, w + rho * g / (torch.linalg.norm(g) + 1e-7), index) - loss(reference, w, index)

    assert run.probes[0]["sharpness"] == pytest.approx(rise(images), rel=1e-9)
    parts = [images[first : first + 10] for first in range(0, 49, 10)]
    mean = sum(len(part) * rise(part) for part in parts) / 49
    assert run.probes[0]["m_sharpness"] == pytest.approx(mean, rel=1e-9)
    assert run.probes[0]["m_sharpness"] > run.probes[0]["sharpness"] > 0


def test_drift_is_that_of_the_definition(tmp_path):
    """FedSAM, all clients, two steps each at most: every client and the virtual global model stepped by hand."""
    changes = dict(sampling={"scheme": "all"}, local_epochs=1, batch_size=6, learning_rate_decay=1.0)
    spec = {**description("fedsam", {"rho": 0.3}, **changes), "probe": {**PROBE, "every": 1}}
    run, reference = simulation(tmp_path, spec), Reference(tmp_path, spec)
    models = [run.server["w"][0].clone() for _ in range(6)]
    run.advance()
    images, batches = run.probe.images.numpy(), [reference.batches(i, 0) for i in range(6)]
    total, count = 0.0, 0
    for k in range(2):
        middle = sum(models) / 6
        g = reference.gradient(middle, images)
        along, stepped = g / torch.linalg.norm(g), [w.clone() for w in models]
        for i in range(6):
            if k < len(batches[i]):
                own = reference.gradient(models[i], batches[i][k])
                e = 0.3 * own / (torch.linalg.norm(own) + 1e-7)
                total, count = total + float((along - e / e.norm()).norm()) / 2, count + 1
                d = reference.gradient(models[i] + e, batches[i][k])
                d = d * min(1.0, 1.5 / (float(d.norm()) + 1e-6))
                stepped[i] = models[i] - 0.2 * (d + 0.01 * models[i])
        models = stepped
    assert count == 10 and 0 < total / count < 1
    assert run.probes[0]["perturbation_drift"] == pytest.approx(total / count, abs=1e-9)


def test_a_client_with_all_data_does_not_drift(tmp_path):
    write_problem(tmp_path, [8])
    changes = dict(partition={"clients": 1}, sampling={"scheme": "all"}, local_epochs=1, batch_size=8)
    run = simulation(tmp_path, {**description("fedsam", **changes), "probe": PROBE})
    run.advance()
    assert run.probes[0]["perturbation_drift"] < 1e-12


def test_lesam_drifts_only_where_it_perturbs(tmp_path):
    """No client perturbs in its first round; where everybody takes part, all perturb in the second, one way for all."""
    changes = dict(sampling={"scheme": "all"}, learning_rate_decay=1.0)
    run = simulation(tmp_path, {**description("fedlesam", {"rho": 0.1}, **changes), "probe": {**PROBE, "every": 1}})
    before = run.server["w"].clone()
    run.advance()
    run.advance()
    first, second = run.probes
    assert first["perturbation_drift"] is None and 0 < second["perturbation_drift"] < 1
    assert not torch.equal(before, run.server["w"])
