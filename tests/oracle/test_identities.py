"""Pairs of update rules that are one under some settings and differ under others."""

from __future__ import annotations

import numpy as np
import pytest
from exact import EVERYBODY, FULL, HALF, ONE_STEP, PLAIN, RING, TOLERANCE, gap, model

from harness import SIZES, Reference, description, simulation, weights, write_problem

FIRST, RHO, DUAL = {"rounds": 1}, {"rho": 0.3}, {"rho": 0.3, "penalty": 0.2}
SERVER_STEP, ACTIVE = {**RHO, "direction": "server_step"}, {**RHO, "average": "active_clients"}
BERNOULLI = {"sampling": {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"}}
#: Algorithms with parameters -> the settings under which they are equal, and those under which they differ.
PAIRS = {
    "at w^t FedProx's term has no gradient, but a clip sees its linear half": (
        *(("fedprox", {"mu": 0.7}), ("fedavg", {})),
        *({**FIRST, **ONE_STEP, "clip_norm": None}, {**FIRST, **ONE_STEP, "clip_norm": 0.4}),
    ),
    "both averages of FedSpeed agree when everybody is active": (
        *(("fedspeed", RHO), ("fedspeed", ACTIVE), EVERYBODY, HALF),
    ),
    "FedSMOO begins as FedSpeed: with mu_i = 0 and s = 0 the perturbation is SAM's": (
        *(("fedsmoo", DUAL), ("fedspeed", DUAL), {**FIRST, **ONE_STEP}, FIRST),
    ),
    "FedLESAM begins as FedAvg": (("fedlesam", {"rho": 50.0}), ("fedavg", {}), FIRST, {"rounds": 3}),
    "FedLESAM-S begins as SCAFFOLD": (("fedlesam_s", {"rho": 50.0}), ("scaffold", {}), FIRST, {"rounds": 3}),
    "FedLESAM-D begins as FedDyn": (("fedlesam_d", {"rho": 50.0}), ("feddyn", {}), FIRST, {"rounds": 3}),
    "FedLESAM has one direction for all": (("fedlesam", SERVER_STEP), ("fedlesam", RHO), EVERYBODY, BERNOULLI),
    "so has FedLESAM-S": (("fedlesam_s", SERVER_STEP), ("fedlesam_s", RHO), EVERYBODY, BERNOULLI),
    "and FedLESAM-D": (("fedlesam_d", {**SERVER_STEP, **DUAL}), ("fedlesam_d", DUAL), EVERYBODY, BERNOULLI),
    "the official correction is nothing before the second round": (
        *(("fedlesam_s", {**RHO, "correction": "official_code"}), ("fedlesam_s", RHO), FIRST, {"rounds": 2}),
    ),
    "D-PSGD that mixes first is FedAvg on the full graph": (
        *(("dpsgd", {"order": "official_code"}), ("fedavg", {}), FULL, RING),
    ),
    "D-PSGD of the paper is FedAvg for one round": (
        *(("dpsgd", {}), ("fedavg", {}), {**FULL, **FIRST, **ONE_STEP}, {**FULL, **ONE_STEP, "rounds": 2}),
    ),
    "momentum begins anew every round": (("dfedavgm", {}), ("dfedavg", {}), {**RING, **ONE_STEP}, RING),
    "two gossip steps on the full graph are one": (
        *(("dfedsam_mgs", {**RHO, "gossip_steps": 2}), ("dfedsam_mgs", {**RHO, "gossip_steps": 1}), FULL, RING),
    ),
    "five are one": (
        *(("dfedsam_mgs", {**RHO, "gossip_steps": 5}), ("dfedsam_mgs", {**RHO, "gossip_steps": 1}), FULL, RING),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_equal_here_and_different_there(tmp_path, pair):
    one, other, equal, different = PAIRS[pair]
    for changes, bound in ((equal, lambda value: value < TOLERANCE), (different, lambda value: value > 1e-4)):
        settings = {"rounds": 4, **changes}
        assert bound(gap(model(tmp_path, *one, **settings), model(tmp_path, *other, **settings))), changes


def test_one_full_batch_step_of_plain_methods_is_gradient_descent_on_the_union(tmp_path):
    """Equal clients, all active, K = 1: the mean of the clients' gradients is the gradient on all data."""
    write_problem(tmp_path, [8] * 6)
    settings = {**EVERYBODY, **PLAIN, "local_epochs": 1, "batch_size": 8}
    reference = Reference(tmp_path, description("fedavg", **settings))
    gradient = reference.gradient(reference.w.clone(), np.concatenate(reference.members))
    for name in ("fedavg", "scaffold", "fedprox"):
        assert gap(model(tmp_path, name, rounds=1, **settings)[0], reference.w - 0.2 * gradient) < TOLERANCE
        assert gap(model(tmp_path, name, **settings), model(tmp_path, "fedavg", **settings)) < TOLERANCE


@pytest.mark.parametrize(("name", "params"), [("fedcm", {}), ("mofedsam", RHO)])
def test_the_papers_scaling_is_averaging_where_eta_g_is_eta_times_k(tmp_path, name, params):
    """Qu et al., Alg. 2: equal clients and a constant rate; K = 2 ceil(8 / 3) = 6."""
    write_problem(tmp_path, [8] * 6)
    params, settings = {**params, "alpha": 0.3}, {"batch_size": 3, "learning_rate_decay": 1.0}
    averaged = model(tmp_path, name, params, **settings)
    for rate, equal in ((0.2 * 6, True), (1.0, False)):
        scaled = model(tmp_path, name, {**params, "scaling": "paper", "server_learning_rate": rate}, **settings)
        assert (gap(scaled, averaged) < TOLERANCE) == equal


@pytest.mark.parametrize("parts", [(2, 5), (4, 7)])
def test_centralised_epochs_run_through_rounds(tmp_path, parts):
    """At a constant rate the steps are the same however rounds cut them, also in the middle of an epoch."""
    write_problem(tmp_path, [sum(SIZES)])
    central = {"partition": {"scheme": "central", "clients": 1}, **EVERYBODY, "learning_rate_decay": 1.0}
    one, other = (
        model(tmp_path, "centralised_sgd", rounds=rounds, local_steps=steps, **central)
        for steps, rounds in (parts, parts[::-1])
    )
    assert gap(one, other) < TOLERANCE


OUTSIDE = {
    "uncorrected": """from flatfed.algorithms.fedwmsam import FedWMSAM


class Uncorrected(FedWMSAM):
    def finish(self, w, ctx):
        state, uploads = super().finish(w, ctx)
        return {"c": state["c"] * 0}, {**uploads, "difference": uploads["difference"] * 0}
""",
    "linear": """from flatfed.algorithms.feddyn import FedDyn


class Linear(FedDyn):
    proximal = 0.0

    def start(self, w, ctx):
        return {"pull": self.penalty * ctx.client["h"]}
""",
}


@pytest.mark.parametrize(
    ("ours", "params", "other", "other_params"),
    [
        ("uncorrected", {"alpha": 0.3, "rho": 0.0, "adaptation": 0.0}, "fedcm", {"alpha": 0.3}),
        ("fedgmt", {"distillation": 0.0, "penalty": 0.3}, "linear", {"penalty": 0.3}),
    ],
)
def test_reductions_of_the_rows_of_2025(tmp_path, outside, ours, params, other, other_params):
    """FedWMSAM without corrections, radius and adaptation is FedCM; FedGMT without divergence FedDyn's linear part."""
    for name, text in OUTSIDE.items():
        outside.write(name, text)
    first, second = (weights(tmp_path, description(*of)) for of in ((ours, params), (other, other_params)))
    assert gap(first, second) < TOLERANCE


def test_fedgmt_with_the_first_model_for_ever(tmp_path):
    """alpha = 1: e stays w^0."""
    run = simulation(tmp_path, description("fedgmt", {"average": 1.0}))
    start = run.server["w"].clone()
    for _ in range(3):
        run.advance()
        assert gap(run.server["w"] + run.server["lead"], start) < TOLERANCE
