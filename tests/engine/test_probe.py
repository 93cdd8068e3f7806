"""Sharpness and perturbation drift along the way: against the definitions, and that looking changes nothing."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import algorithms
from flatfed.engine import batches
from flatfed.engine.job.train import train
from flatfed.engine.probe import Probe
from flatfed.engine.sampling import active_clients
from flatfed.runs.run_config import RunConfig, SamplingSettings
from harness import Reference, description, needs, simulation, sizes, write_problem

PROBE = {"every": 2, "images": 49, "rho": 0.05, "m": 10}


def with_probe(folder, spec: dict, *arguments):
    """Return the simulation and the probe of ``spec``."""
    run = simulation(folder, spec, *arguments)
    return run, Probe(run.config.probe, run)


def advance(run, probe) -> dict[str, float] | None:
    probe.before_round(run, run.sample())
    return run.advance()


def loss(reference: Reference, w: torch.Tensor, index) -> float:
    vector_to_parameters(w, reference.model.parameters())
    with torch.no_grad():
        return cross_entropy(reference.model(reference.x[index]), reference.y[index]).item()


@pytest.mark.parametrize("name", algorithms.names())
def test_looking_changes_nothing(tmp_path, name):
    write_problem(tmp_path, sizes(name))
    spec = description(name, **needs(name), rounds=3)
    plain, (probed, probe) = simulation(tmp_path, spec), with_probe(tmp_path, {**spec, "probe": PROBE})
    for _ in range(3):
        line, other = plain.advance(), advance(probed, probe)
        assert {**line, "seconds": 0} == {**other, "seconds": 0}
    probe.finish(probed)
    for one, two in ((plain.server, probed.server), (plain.state.store, probed.state.store)):
        assert all(torch.equal(one[key], two[key]) for key in one)
    assert [found["round"] for found in probe.measures] == [0, 2, 3]
    perturbs = algorithms.load(name).gradients_per_step == 2 or "lesam" in name
    served = not algorithms.load(name).decentralised and not algorithms.load(name).central
    assert (probe.measures[1]["perturbation_drift"] is not None) == (perturbs and served)
    assert probe.measures[-1]["perturbation_drift"] is None


def test_a_probed_run_writes_the_same_files_and_what_looking_cost(tmp_path):
    write_problem(tmp_path)
    spec = description("fedsam", rounds=3)
    for name, about in (("plain", spec), ("probed", {**spec, "probe": PROBE})):
        train(RunConfig(**about), tmp_path / "data", tmp_path / "partition.npz", tmp_path / name, device="cpu")
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
    (run, probe), reference = with_probe(tmp_path, spec), Reference(tmp_path, spec)
    w, rho = run.server["w"][0].clone(), PROBE["rho"]
    probe.before_round(run, run.sample())
    images = probe.images.numpy()
    assert len(images) == 49 == len(set(images.tolist()))

    def rise(index) -> float:
        g = reference.gradient(w, index)
        return loss(reference, w + rho * g / (torch.linalg.norm(g) + 1e-7), index) - loss(reference, w, index)

    assert probe.measures[0]["sharpness"] == pytest.approx(rise(images), rel=1e-9)
    parts = [images[first : first + 10] for first in range(0, 49, 10)]
    mean = sum(len(part) * rise(part) for part in parts) / 49
    assert probe.measures[0]["m_sharpness"] == pytest.approx(mean, rel=1e-9)
    assert probe.measures[0]["m_sharpness"] > probe.measures[0]["sharpness"] > 0


def stepped(reference: Reference, w: torch.Tensor, client: int, round_: int, rho: float) -> tuple[list, list]:
    """FedSAM's models before every step of a round and after it, and the directions of the perturbations, by hand."""
    models, directions = [w], []
    for batch in reference.batches(client, round_):
        w = models[-1]
        own = reference.gradient(w, batch)
        e = rho * own / (torch.linalg.norm(own) + 1e-7)
        directions.append(e / e.norm())
        d = reference.gradient(w + e, batch)
        d = d * min(1.0, 1.5 / (float(d.norm()) + 1e-6))
        models.append(w - 0.2 * (d + 0.01 * w))
    return models, directions


def drift_by_hand(reference: Reference, w: torch.Tensor, active, round_: int, rho: float, images, rate=1.0) -> float:
    """PD of ``active`` clients; the virtual model is the mean of all clients', of those that ended early their last."""
    walks = [stepped(reference, w, client, round_, rho) for client in range(reference.m)]
    total, count = 0.0, 0
    for k in range(max(len(directions) for _, directions in walks)):
        middle = sum(models[min(k, len(models) - 1)] for models, _ in walks) / reference.m
        g = reference.gradient(w - rate * (w - middle), images)
        for client in active:
            if k < len(walks[client][1]):
                total += float((g / g.norm() - walks[client][1][k]).norm())
                count += 1
    return total / (2 * count)


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_drift_is_that_of_the_definition(tmp_path, executor, rate):
    """FedSAM: every client, active or not, and the virtual global model stepped by hand, at w^0 and at w^1."""
    changes = dict(sampling={"scheme": "fixed", "fraction": 0.5, "sampler": "keyed"}, learning_rate_decay=1.0)
    params = {"rho": 0.3, "server_learning_rate": rate}
    spec = {**description("fedsam", params, **changes), "probe": {**PROBE, "every": 1}}
    (run, probe), reference = with_probe(tmp_path, spec, executor), Reference(tmp_path, spec)
    images = probe.images.numpy()
    for round_ in range(2):
        w = run.server["w"][0].clone()
        active = active_clients(SamplingSettings(**spec["sampling"]), 6, 3, round_)
        advance(run, probe)
        expected = drift_by_hand(reference, w, active, round_, 0.3, images, rate)
        assert len(active) == 3 and 0 < expected < 1
        assert probe.measures[round_]["perturbation_drift"] == pytest.approx(expected, abs=1e-9)
        alone = Reference(tmp_path, spec)
        alone.m = 1  # the virtual model of one client is another
        assert drift_by_hand(alone, w, [0], round_, 0.3, images, rate) != pytest.approx(expected, abs=1e-3)


def test_a_client_with_all_data_does_not_drift(tmp_path):
    write_problem(tmp_path, [8])
    changes = dict(partition={"clients": 1}, sampling={"scheme": "all"}, local_epochs=1, batch_size=8)
    run, probe = with_probe(tmp_path, {**description("fedsam", **changes), "probe": PROBE})
    advance(run, probe)
    assert probe.measures[0]["perturbation_drift"] < 1e-12


def test_steps_without_a_perturbation_count_as_a_half(tmp_path):
    """No client perturbs in its first round; where everybody takes part, all perturb in the second, one way for all."""
    changes = dict(sampling={"scheme": "all"}, learning_rate_decay=1.0)
    spec = {**description("fedlesam", {"rho": 0.1}, **changes), "probe": {**PROBE, "every": 1}}
    (run, probe), reference = with_probe(tmp_path, spec), Reference(tmp_path, spec)
    before = run.server["w"][0].clone()
    advance(run, probe)
    now = run.server["w"][0].clone()
    advance(run, probe)
    first, second = probe.measures
    assert first["perturbation_drift"] == pytest.approx(0.5, abs=1e-12)
    e = 0.1 * (before - now) / ((before - now).norm() + 1e-7)
    walks = []
    for client in range(6):
        models = [now]
        for batch in reference.batches(client, 1):
            d = reference.gradient(models[-1] + e, batch)
            d = d * min(1.0, 1.5 / (float(d.norm()) + 1e-6))
            models.append(models[-1] - 0.2 * (d + 0.01 * models[-1]))
        walks.append(models)
    total, count = 0.0, 0
    for k in range(max(map(len, walks)) - 1):
        g = reference.gradient(sum(models[min(k, len(models) - 1)] for models in walks) / 6, probe.images.numpy())
        still = sum(k < len(models) - 1 for models in walks)
        total, count = total + still * float((g / g.norm() - e / e.norm()).norm()), count + still
    assert second["perturbation_drift"] == pytest.approx(total / (2 * count), abs=1e-9)


def test_some_steps_without_a_perturbation_count_among_the_others(tmp_path):
    """Half of the clients have taken part before: the drift lies between theirs and a half."""
    sampling = {"scheme": "fixed", "fraction": 0.5, "sampler": "keyed"}
    spec = {**description("fedlesam", {"rho": 0.1}, sampling=sampling), "probe": {**PROBE, "every": 1}}
    run, probe = with_probe(tmp_path, spec)
    run.advance()
    newcomers = set(active_clients(SamplingSettings(**sampling), 6, 3, 1)) - set(
        active_clients(SamplingSettings(**sampling), 6, 3, 0)
    )
    order = batches.longest_first(active_clients(SamplingSettings(**sampling), 6, 3, 1), run.sizes, run.schedule)
    assert 0 < len(newcomers) < 3
    new, old = (order[[(client in newcomers) == which for client in order]] for which in (True, False))
    assert probe.drift(run, new) == pytest.approx(0.5, abs=1e-12)
    steps = [sum(run.schedule.count(int(run.sizes[client])) for client in clients) for clients in (new, old)]
    mean = (steps[0] * 0.5 + steps[1] * probe.drift(run, old)) / sum(steps)
    assert probe.drift(run, order) == pytest.approx(mean, abs=1e-12)
    assert probe.drift(run, old) != pytest.approx(0.5, abs=1e-3)


def test_runs_of_one_deal_are_measured_on_the_same_images(tmp_path):
    """At several clients and at one place, which then have the same F; another seed has others."""
    write_problem(tmp_path)
    spec = {**description("fedsam"), "probe": {**PROBE, "images": 20}}
    several, first = with_probe(tmp_path, spec)
    with np.load(tmp_path / "partition.npz") as there:
        content = {**there, "offsets": np.array([0, 49]), "class_counts": there["class_counts"].sum(0, keepdims=True)}
    np.savez(tmp_path / "partition.npz", **content)
    place = {**needs("centralised_sam"), "probe": spec["probe"]}
    one, second = with_probe(tmp_path, {**description("centralised_sam"), **place})
    several.server["w"].copy_(one.server["w"])
    found = [first.measure(several), second.measure(one)]
    assert found[0]["images_sha256"] == found[1]["images_sha256"] == first.digest
    assert found[0]["sharpness"] == found[1]["sharpness"]
    _, other = with_probe(tmp_path, {**description("centralised_sam"), **place, "seed": 4})
    assert other.digest != second.digest
    second.before_round(one, one.sample())
    assert second.measures[0]["perturbation_drift"] is None, "all data are at one place: no client has a perturbation"
