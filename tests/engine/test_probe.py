"""Sharpness and perturbation drift during a training: by their definitions, and the training stays the same."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from flatfed import algorithms
from flatfed.engine.batches import active_clients
from flatfed.engine.probe import Probe, images_of
from flatfed.runs.record import read_finished
from flatfed.runs.run_config import SamplingSettings
from harness import Reference, description, job, lines, simulation
from samples import FEW, sampled

PROBE = {"every": 2, "images": 49, "rho": 0.05, "m": 10}
EVERY = {"probe": {**PROBE, "every": 1}}
HALF = {"scheme": "fixed", "fraction": 0.5, "sampler": "keyed"}


def with_probe(folder, spec: dict, *arguments):
    """Return the simulation and the probe of ``spec``."""
    run = simulation(folder, {"probe": PROBE, **spec}, *arguments)
    return run, Probe()


def advance(run, probe) -> None:
    probe.before_round(run, run.sample())
    run.advance()


@pytest.mark.parametrize("name", sampled(algorithms.names(), FEW))
def test_a_probe_changes_no_file_and_writes_its_measures(tmp_path, name):
    plain, probed = (job(tmp_path, name, out, rounds=3, **probe) for out, probe in (("a", {}), ("b", {"probe": PROBE})))
    assert (plain / "model.safetensors").read_bytes() == (probed / "model.safetensors").read_bytes()
    assert lines(plain) == lines(probed)
    without, record = read_finished(plain), read_finished(probed)
    assert without.probes == [] and without.gradient_evaluations == record.gradient_evaluations
    assert [measure["round"] for measure in record.probes] == [0, 2, 3]
    assert all(measure["seconds"] > 0 for measure in record.probes)
    kind = algorithms.load(name)
    drifts = "rho" in kind.parameters() and not (kind.decentralised or kind.central)
    assert [measure["perturbation_drift"] is not None for measure in record.probes[1:]] == [drifts, False]


def test_sharpness_is_the_rise_of_the_loss_one_step_uphill(tmp_path):
    """Of the loss without label smoothing."""
    spec = description("fedavg", label_smoothing=0.5)
    (run, probe), reference = with_probe(tmp_path, spec), Reference(tmp_path, description("fedavg"))
    w, images = run.server["w"][0].clone(), images_of(run).numpy()
    probe.before_round(run, run.sample())
    assert len(images) == 49 == len(set(images.tolist()))

    def loss(w: torch.Tensor, index: np.ndarray) -> float:
        vector_to_parameters(w, reference.model.parameters())
        with torch.no_grad():
            return cross_entropy(reference.model(reference.x[index]), reference.y[index]).item()

    def rise(index: np.ndarray) -> float:
        return loss(w + PROBE["rho"] * unit(reference.gradient(w, index), 1e-7), index) - loss(w, index)

    mean = sum(len(part) * rise(part) for part in np.split(images, range(10, 49, 10))) / 49
    assert probe.measures[0]["sharpness"] == pytest.approx(rise(images), rel=1e-9)
    assert probe.measures[0]["m_sharpness"] == pytest.approx(mean, rel=1e-9)
    assert mean > probe.measures[0]["sharpness"] > 0


def test_sharpness_is_of_the_models_weights_alone(tmp_path):
    """FedRobust's map in front of the model is zero at first: the initial model has the sharpness of FedAvg's."""
    measured = []
    for name in ("fedavg", "fedrobust"):
        run, probe = with_probe(tmp_path, description(name))
        probe.before_round(run, run.sample())
        measured.append([probe.measures[0][key] for key in ("sharpness", "m_sharpness")])
    assert measured[0] == pytest.approx(measured[1], rel=1e-12)


def unit(vector: torch.Tensor, epsilon: float = 0.0) -> torch.Tensor:
    return vector / (vector.norm() + epsilon)


def walked(reference: Reference, w: torch.Tensor, client: int, round_: int, perturbation) -> tuple[list, list]:
    """The client's models before every step of a round and after it, and the directions of its perturbations."""
    models, directions = [w], []
    for batch in reference.batches(client, round_):
        w = models[-1]
        e = perturbation(w, batch)
        directions.append(unit(e))
        d = reference.gradient(w + e, batch)
        d = d * min(1.0, 1.5 / (float(d.norm()) + 1e-6))
        models.append(w - 0.2 * (d + 0.01 * w))
    return models, directions


def drift_by_hand(reference, w, active, round_, perturbation, images, clients=6, rate=1.0) -> float:
    """PD of ``active`` clients; the virtual model is the mean of all clients', of those that ended early their last."""
    walks = [walked(reference, w, client, round_, perturbation) for client in range(clients)]
    distances = []
    for k in range(max(len(directions) for _, directions in walks)):
        middle = sum(models[min(k, len(models) - 1)] for models, _ in walks) / clients
        g = unit(reference.gradient(w - rate * (w - middle), images))
        distances += [float((g - walks[i][1][k]).norm()) for i in active if k < len(walks[i][1])]
    return sum(distances) / (2 * len(distances))


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("rate", sampled([1.0, 0.5], [0.5]))
def test_drift_is_that_of_the_definition(tmp_path, executor, rate):
    """FedSAM: every client, active or not, and the virtual global model stepped by hand, at w^0 and at w^1."""
    params = {"rho": 0.3, "server_learning_rate": rate}
    spec = description("fedsam", params, sampling=HALF, learning_rate_decay=1.0, **EVERY)
    (run, probe), reference = with_probe(tmp_path, spec, executor), Reference(tmp_path, spec)

    def uphill(w, batch):
        return 0.3 * unit(reference.gradient(w, batch), 1e-7)

    for round_ in range(2):
        w, active = run.server["w"][0].clone(), active_clients(SamplingSettings(**HALF), 6, 3, round_)
        advance(run, probe)
        arguments = round_, uphill, images_of(run).numpy()
        expected = drift_by_hand(reference, w, active, *arguments, rate=rate)
        assert len(active) == 3 and 0 < expected < 1
        assert probe.measures[round_]["perturbation_drift"] == pytest.approx(expected, abs=1e-9)
        alone = drift_by_hand(reference, w, [0], *arguments, clients=1, rate=rate)
        assert alone != pytest.approx(expected, abs=1e-3), "the virtual model of one client is another"


def test_steps_without_a_perturbation_count_as_a_half(tmp_path):
    """No client perturbs in its first round; if everybody takes part, all perturb in the second, one way for all."""
    changes = {"sampling": {"scheme": "all"}, "learning_rate_decay": 1.0, **EVERY}
    spec = description("fedlesam", {"rho": 0.1}, **changes)
    (run, probe), reference = with_probe(tmp_path, spec), Reference(tmp_path, spec)
    models = []
    for _ in range(2):
        models.append(run.server["w"][0].clone())
        advance(run, probe)
    first, second = (measure["perturbation_drift"] for measure in probe.measures)
    assert first == pytest.approx(0.5, abs=1e-12)
    e = 0.1 * unit(models[0] - models[1], 1e-7)
    expected = drift_by_hand(reference, models[1], range(6), 1, lambda w, batch: e, images_of(run).numpy())
    assert second == pytest.approx(expected, abs=1e-9)
