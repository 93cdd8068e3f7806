"""The identities of update rules that hold exactly: float64, 1e-12, with an active clip, weight decay, partial
participation, ragged batches and clients of unequal size unless a case needs otherwise."""

from __future__ import annotations

import pytest
import torch

from harness import SIZES, description, simulation, weights

TOLERANCE = 1e-12
EVERYBODY = {"scheme": "all"}
PLAIN = {"weight_decay": 0.0, "clip_norm": None}


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def test_fedcm_direction_is_the_mean_gradient_plus_decay(tmp_path):
    spec = description(
        "fedcm", {"alpha": 1.0}, local_epochs=1, batch_size=max(SIZES), sampling=EVERYBODY, clip_norm=None
    )
    run = simulation(tmp_path, spec)
    before = run.server["w"].clone()
    decay = spec["weight_decay"]
    run.advance()
    moved = (before - run.server["w"]) / spec["learning_rate"]
    assert gap(run.server["direction"], moved) < TOLERANCE
    plain = simulation(tmp_path, {**spec, "weight_decay": 0.0})
    plain.advance()
    assert gap(run.server["direction"], plain.server["direction"] + decay * before) < TOLERANCE


def test_feddyn_paper_form_equals_code_form(tmp_path):
    """lambda_i <- lambda_i - penalty D_i, w = mean w_i - L / penalty with L the mean dual over all clients."""
    penalty = 0.2
    run = simulation(tmp_path, description("feddyn", {"penalty": penalty}))
    for _ in range(4):
        run.advance()
        duals = -penalty * run.state.store["h"]
        mean = run.algorithm.evaluated(run.server)["mean"]
        assert gap(run.server["w"][0], mean[0] - duals.mean(dim=0) / penalty) < TOLERANCE
        assert gap(run.server["h"][0], run.state.store["h"].mean(dim=0)) < TOLERANCE


@pytest.mark.parametrize(("sampling", "share"), [(EVERYBODY, 1.0), ({"scheme": "fixed", "fraction": 0.5}, 0.5)])
def test_feddyn_without_penalty_still_adds_mean_h(tmp_path, sampling, share):
    """Round 0: w^1 - w^0 = (1 + n/m) times FedAvg's."""
    dyn = simulation(tmp_path, description("feddyn", {"penalty": 0.0}, sampling=sampling))
    avg = simulation(tmp_path, description("fedavg", sampling=sampling))
    start = dyn.server["w"].clone()
    dyn.advance(), avg.advance()
    assert gap(dyn.server["w"] - start, (1 + share) * (avg.server["w"] - start)) < TOLERANCE


def test_fedadam_first_step_and_no_moments(tmp_path):
    avg = simulation(tmp_path, description("fedavg"))
    start = avg.server["w"].clone()
    avg.advance()
    mean = avg.server["w"] - start
    run = simulation(tmp_path, description("fedadam"))
    run.advance()
    assert gap(run.server["w"] - start, 0.1 * 0.1 * mean / (0.1 * mean.abs() + 0.01)) < TOLERANCE
    run = simulation(tmp_path, description("fedadam", {"beta1": 0.0, "beta2": 0.0}))
    run.advance()
    assert gap(run.server["w"] - start, 0.1 * mean / (mean.abs() + 0.01)) < TOLERANCE


def test_fedwmsam_without_corrections_is_fedcm(tmp_path, outside):
    text = """from flatfed.algorithms.fedwmsam import FedWMSAM


class Uncorrected(FedWMSAM):
    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {"c": state["c"] * 0}, {**uploads, "difference": uploads["difference"] * 0}
"""
    outside.write("uncorrected", text)
    params = {"alpha": 0.3, "rho": 0.0, "adaptation": 0.0}
    ours = weights(tmp_path, description("uncorrected", params))
    assert gap(ours, weights(tmp_path, description("fedcm", {"alpha": 0.3}))) < TOLERANCE


def test_fedgmt_without_divergence_is_feddyn_without_the_quadratic(tmp_path, outside):
    text = """from flatfed.algorithms.feddyn import FedDyn


class Linear(FedDyn):
    proximal = 0.0

    def start(self, w, ctx):
        return {"pull": self.penalty * ctx.client["h"]}
"""
    outside.write("linear", text)
    ours = weights(tmp_path, description("fedgmt", {"distillation": 0.0, "penalty": 0.3}))
    assert gap(ours, weights(tmp_path, description("linear", {"penalty": 0.3}))) < TOLERANCE


def test_fedgmt_with_the_first_model_for_ever(tmp_path):
    """alpha = 1: e stays w^0."""
    run = simulation(tmp_path, description("fedgmt", {"average": 1.0}))
    start = run.server["w"].clone()
    for _ in range(3):
        run.advance()
        assert gap(run.server["w"] + run.server["lead"], start) < TOLERANCE


def test_one_full_batch_step_of_fedavg_is_gradient_descent_on_the_union(tmp_path):
    """Equal clients, all active, K = 1: the mean of the clients' gradients is the gradient on all data."""
    from harness import Reference, write_problem

    write_problem(tmp_path, [8] * 6)
    spec = description("fedavg", sampling=EVERYBODY, local_epochs=1, batch_size=8, **PLAIN)
    reference = Reference(tmp_path, spec)
    start, everything = reference.w.clone(), __import__("numpy").concatenate(reference.members)
    found = weights(tmp_path, spec, rounds=1)
    assert gap(found, start - spec["learning_rate"] * reference.gradient(start, everything)) < TOLERANCE
