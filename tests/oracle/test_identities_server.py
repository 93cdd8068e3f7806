"""Identities of algorithms with a server that are no reductions: first steps, averages, points of rest."""

from __future__ import annotations

import numpy as np
import pytest
from exact import EXECUTORS, RING, TOLERANCE, gap, model, run, step
from quadratic import after, quadratic

from flatfed import algorithms

SCALED = [name for name in algorithms.names() if "server_learning_rate" in algorithms.load(name).parameters()]
A, T = [[1.0, 3.0], [2.0, 1.5], [4.0, 1.0]], [[[40, 100]], [[200, 60]], [[90, 250]]]  # curvatures, minima


@pytest.mark.parametrize("name", SCALED)
def test_the_server_learning_rate_scales_the_first_step(tmp_path, name):
    whole = step(tmp_path, name, {"server_learning_rate": 1.0})
    assert gap(step(tmp_path, name, {"server_learning_rate": 0.3}), 0.3 * whole) < TOLERANCE
    assert whole.abs().max() > 1e-4


def test_fedcm_feeds_weight_decay_back_and_mimelite_does_not():
    """At rest g + (decay / alpha) w = 0 with FedCM, whose Delta holds the decay, and g + decay w = 0 with MimeLite."""
    a, t, decay, alpha = 2.0, 100.0, 0.3, 0.25
    for name, effective in (("fedcm", decay / alpha), ("mimelite", decay)):
        point = quadratic([[[100]]], [[a]], [1.0], name, {"alpha": alpha}, "sequential", weight_decay=decay)
        assert after(200, point)[0] == pytest.approx(a * t / (a + effective), abs=1e-9), name


def test_fedrobust_with_a_large_penalty_is_fedavg(tmp_path):
    """With ascent 1 / (2 lambda eta) every step sets (a, b) to gradient / (2 lambda): nothing, as lambda grows."""
    plain, gaps = model(tmp_path, "fedavg", learning_rate_decay=1.0), []
    for strength in (1e3, 1e6):
        params = {"scale_penalty": strength, "shift_penalty": strength, "ascent": 1 / (2 * strength * 0.2)}
        gaps.append(gap(model(tmp_path, "fedrobust", params, learning_rate_decay=1.0), plain))
    assert gaps[0] > 1e-6 > gaps[1]


def test_feddyn_paper_form_equals_code_form(tmp_path):
    """lambda_i <- lambda_i - penalty D_i, w = mean w_i - L / penalty with L the mean dual over all clients."""
    penalty, dynamic = 0.2, run(tmp_path, "feddyn", {"penalty": 0.2})
    for _ in range(4):
        dynamic.advance()
        duals = -penalty * dynamic.state.store["h"]
        mean = dynamic.algorithm.evaluated(dynamic.server)["mean"]
        assert gap(dynamic.server["w"][0], mean[0] - duals.mean(dim=0) / penalty) < TOLERANCE
        assert gap(dynamic.server["h"][0], dynamic.state.store["h"].mean(dim=0)) < TOLERANCE


@pytest.mark.parametrize("name", ["feddyn", "fedspeed", "fedsmoo", "fedlesam_d"])
def test_duals_are_the_clients_gradients_at_rest(name):
    """grad F_i(w) = lambda_i = -penalty h_i, and they sum to zero."""
    params = {"penalty": 0.5} if name == "feddyn" else {"penalty": 0.5, "rho": 0.0}
    point = quadratic(T, A, [1.0, 2.0], name, params, "sequential", learning_rate=0.2)
    gradients = np.array(A) * (after(250, point) - np.array(T)[:, 0])
    assert np.abs(-0.5 * point.state.store["h"].numpy() - gradients).max() < 1e-9
    assert np.abs(gradients.sum(axis=0)).max() < 1e-9 < 1 < np.abs(gradients).min()


@EXECUTORS
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("scaffold", {}),
        ("scaffold", {"steps": "official_code"}),
        ("fedgamma", {"rho": 0.3, "steps": "official_code"}),
        ("fedlesam_s", {"rho": 0.3, "correction": "official_code"}),
    ],
)
def test_c_is_the_mean_of_all_c_i(tmp_path, executor, name, params):
    variates = run(tmp_path, name, params, executor=executor)
    for _ in range(4):
        variates.advance()
        assert gap(variates.server["c"][0], variates.state.store["c"].mean(dim=0)) < TOLERANCE
    assert variates.server["c"].abs().max() > 1e-3 and not variates.state.touched.all()


@pytest.mark.parametrize("name", ["fedsam", "mofedsam", "fedgamma", "fedspeed", "fedsmoo", "dfedsam", "dfedsam_mgs"])
def test_sams_perturbation_has_length_rho_at_every_step(tmp_path, name):
    """Over all weights together, not tensor by tensor; whatever corrections, clip and decay."""
    sharp = run(tmp_path, name, {"rho": 0.3}, **(RING if algorithms.load(name).decentralised else {}))
    perturbation, seen = sharp.algorithm.perturbation, []

    def watched(w, gradient, ctx):
        seen.append(perturbation(w, gradient, ctx))
        return seen[-1]

    sharp.algorithm.perturbation = watched
    sharp.advance()
    assert max(float(e.norm(dim=1).sub(0.3).abs().max()) for e in seen) < 1e-5
    assert max(float(part.norm()) for part in seen[0][0].split(sharp.layout.sizes)) < 0.3 - 1e-4


def test_equal_clients_need_no_control_variates():
    """Deterministic clients with the same data: SCAFFOLD is FedAvg."""
    same, start = ([[[40, 100]]] * 3, [[1.0, 3.0]] * 3), [1.0, 2.0]
    for clients, equal in ((same, True), ((T, A), False)):
        one, other = (after(5, quadratic(*clients, start, name, weight_decay=0.1)) for name in ("scaffold", "fedavg"))
        assert (np.abs(one - other).max() < TOLERANCE) == equal
