"""Schedules, momentum, label smoothing and local steps equal plain torch in float64, for all executors."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, MultiStepLR

from flatfed.engine.probe import Probe
from flatfed.errors import ConfigError
from flatfed.runs.run_config import ProbeSettings
from harness import Reference, description, full_rows, simulation

COSINE = {"kind": "cosine", "final_learning_rate": 0.03}
STEP = {"kind": "step", "milestones": [1, 3], "factor": 0.4}
SCHEDULERS = {
    "cosine": lambda optimizer: CosineAnnealingLR(optimizer, T_max=4, eta_min=0.03),
    "step": lambda optimizer: MultiStepLR(optimizer, milestones=[1, 3], gamma=0.4),
}
CASES = [
    ("fedavg", {"learning_rate_schedule": COSINE, "momentum": 0.9}),
    ("fedavg", {"learning_rate_schedule": STEP, "momentum": 0.9, "weight_decay": 0.0}),
    ("fedavg", {"learning_rate_schedule": STEP, "local_steps": 5, "label_smoothing": 0.2}),
    ("scaffold", {"learning_rate_schedule": COSINE, "momentum": 0.5, "label_smoothing": 0.1}),
    ("fedcm", {"learning_rate_schedule": COSINE, "label_smoothing": 0.1}),
    ("fedcm", {"learning_rate_schedule": STEP, "momentum": 0.9, "local_steps": 3}),
    ("fedsam", {"momentum": 0.9, "label_smoothing": 0.3, "local_steps": 4}),
]


class Torch(Reference):
    """FedAvg, SCAFFOLD, FedCM and FedSAM with torch's own optimizer, schedulers and loss."""

    def __init__(self, folder, spec):
        super().__init__(folder, spec)
        self.spec = {"local_epochs": None, **spec}
        for parameter in self.model.parameters():
            parameter.requires_grad_()

    def run(self, name, run):
        spec, w, zero = self.spec, self.w, torch.zeros_like(self.w)
        c, delta, c_i = zero, zero, {}
        clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=spec["learning_rate"])
        kind = (spec.get("learning_rate_schedule") or {}).get("kind")
        scheduler = SCHEDULERS[kind](clock) if kind else ExponentialLR(clock, spec["learning_rate_decay"])
        for t in range(spec["rounds"]):
            eta, local, directions = clock.param_groups[0]["lr"], {}, []
            for i in map(int, run.sample()):
                local[i], steps = self.client(name, i, t, eta, w, c - c_i.get(i, zero), delta)
                directions.append((w - local[i]) / (steps * eta))
            if name == "scaffold":
                fresh = {i: c_i.get(i, zero) - c + d for i, d in zip(local, directions, strict=True)}
                c = c + sum(fresh[i] - c_i.get(i, zero) for i in fresh) / self.m
                c_i |= fresh
            delta, w = sum(directions) / len(directions), sum(local.values()) / len(local)
            assert run.advance()["learning_rate"] == pytest.approx(eta, rel=1e-14)
            clock.step(), scheduler.step()
        return w

    def client(self, name, i, t, eta, w, variate, delta):
        vector_to_parameters(w, self.model.parameters())
        parameters, spec = list(self.model.parameters()), self.spec
        options = {"momentum": spec.get("momentum", 0), "weight_decay": spec["weight_decay"]}
        optimizer, batches = torch.optim.SGD(parameters, lr=eta, **options), self.batches(i, t)
        for index in batches:
            at = parameters_to_vector(parameters).detach().clone()
            g = self.gradient(at, index)
            if name == "fedsam":
                g = self.gradient(at + 0.3 * g / (g.norm() + 1e-7), index)
            vector_to_parameters(at, parameters)
            g = g + variate if name == "scaffold" else 0.3 * g + 0.7 * delta if name == "fedcm" else g
            start = 0
            for parameter in parameters:
                parameter.grad = g[start : start + parameter.numel()].view_as(parameter).clone()
                start += parameter.numel()
            clip_grad_norm_(parameters, spec["clip_norm"])
            optimizer.step()
        return parameters_to_vector(parameters).detach().clone(), len(batches)

    def gradient(self, w, index):
        vector_to_parameters(w, self.model.parameters())
        loss = cross_entropy(
            self.model(self.x[index]), self.y[index], label_smoothing=self.spec.get("label_smoothing", 0.0)
        )
        grads = torch.autograd.grad(loss, list(self.model.parameters()))
        return parameters_to_vector([g.contiguous() for g in grads]).detach()


def settings(name, changes):
    params = {"fedcm": {"alpha": 0.3}, "fedsam": {"rho": 0.3}}.get(name, {})
    spec = description(name, params, **changes)
    if "learning_rate_schedule" in changes:
        del spec["learning_rate_decay"]
    if "local_steps" in changes:
        del spec["local_epochs"]
    return spec


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
@pytest.mark.parametrize(("name", "changes"), CASES)
def test_equals_torch(tmp_path, name, changes, executor):
    spec = settings(name, changes)
    reference, run = Torch(tmp_path, spec), simulation(tmp_path, spec, executor)
    expected = reference.run(name, run)
    assert (full_rows(run, run.server["w"])[0] - expected).abs().max() < 1e-12


def test_the_probe_measures_the_sharpness_of_the_loss_without_label_smoothing(tmp_path):
    settings_ = ProbeSettings(every=1, images=20, m=5, rho=0.1)
    runs = [simulation(tmp_path, settings("fedsam", changes)) for changes in ({}, {"label_smoothing": 0.5})]
    plain, smoothed = (Probe(settings_, run).measure(run, run.sample()) for run in runs)
    assert plain["sharpness"] == smoothed["sharpness"]
    assert plain["perturbation_drift"] != smoothed["perturbation_drift"]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("dfedavgm", {"momentum": 0.9}, r"DFedAvgM: momentum: .* parameter of its own"),
        ("fedgmt", {"label_smoothing": 0.1}, r"FedGMT: label_smoothing: .* loss of its own"),
    ],
)
def test_a_setting_that_the_algorithm_would_not_apply_is_refused(tmp_path, name, changes, message):
    peers = {"topology": {"graph": "ring"}, "sampling": {"scheme": "all"}} if name == "dfedavgm" else {}
    with pytest.raises(ConfigError, match=message):
        simulation(tmp_path, settings(name, {**changes, **peers}))
