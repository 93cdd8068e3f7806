"""Identities of algorithms with a server that are no reductions: first steps, averages, points of rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from exact import EVERYBODY, EXECUTORS, HALF, ONE_STEP, TOLERANCE, gap, model, run, step
from quadratic import after, quadratic

from flatfed import algorithms
from flatfed.algorithms._rows import unit
from harness import Reference, description, simulation

SCALED = [name for name in algorithms.names() if "server_learning_rate" in algorithms.load(name).parameters()]
A, T = [[1.0, 3.0], [2.0, 1.5], [4.0, 1.0]], [[[40, 100]], [[200, 60]], [[90, 250]]]  # curvatures, minima


@pytest.mark.parametrize("name", SCALED)
def test_the_server_learning_rate_scales_the_first_step(tmp_path, name):
    whole = step(tmp_path, name, {"server_learning_rate": 1.0})
    assert gap(step(tmp_path, name, {"server_learning_rate": 0.3}), 0.3 * whole) < TOLERANCE
    assert whole.abs().max() > 1e-4


def test_fedadam_first_step_and_no_moments(tmp_path):
    """Where nothing moves it stays: 0 / (0 + tau)."""
    mean = step(tmp_path, "fedavg")
    assert gap(step(tmp_path, "fedadam"), 0.1 * 0.1 * mean / (0.1 * mean.abs() + 0.01)) < TOLERANCE
    plain = step(tmp_path, "fedadam", {"beta1": 0.0, "beta2": 0.0})
    assert gap(plain, 0.1 * mean / (mean.abs() + 0.01)) < TOLERANCE
    assert not step(tmp_path, "fedadam", learning_rate=0.0).any()


def test_fedcm_direction_is_the_mean_gradient_plus_decay(tmp_path):
    settings = {**ONE_STEP, **EVERYBODY, "clip_norm": None}
    moved = step(tmp_path, "fedcm", {"alpha": 1.0}, **settings)
    decayed, plain = (run(tmp_path, "fedcm", {"alpha": 1.0}, 1, weight_decay=d, **settings) for d in (0.01, 0.0))
    assert gap(decayed.server["direction"], -moved / 0.2) < TOLERANCE
    assert gap(decayed.server["direction"], plain.server["direction"] + 0.01 * plain.weights.initial) < TOLERANCE


def test_fedcm_feeds_weight_decay_back_and_mimelite_does_not():
    """At rest g + (decay / alpha) w = 0 with FedCM, whose Delta holds the decay, and g + decay w = 0 with MimeLite."""
    a, t, decay, alpha = 2.0, 100.0, 0.3, 0.25
    for name, effective in (("fedcm", decay / alpha), ("mimelite", decay)):
        point = quadratic([[[100]]], [[a]], [1.0], name, {"alpha": alpha}, "sequential", weight_decay=decay)
        assert after(200, point)[0] == pytest.approx(a * t / (a + effective), abs=1e-9), name


def test_mimelite_is_a_heavy_ball_that_lags_a_round(tmp_path):
    """One full-batch step, everybody active: w <- w - eta [alpha g + (1 - alpha) s + decay w], s from last round."""
    settings = {**ONE_STEP, **EVERYBODY, "clip_norm": None}
    reference = Reference(tmp_path, description("mimelite", {"alpha": 0.3}, **settings))
    w, s = reference.w.clone(), torch.zeros_like(reference.w)
    for t in range(4):
        g = sum(reference.gradient(w, images) for images in reference.members) / reference.m
        w = w - 0.2 * 0.9**t * (0.3 * g + 0.7 * s + 0.01 * w)
        s = 0.3 * g + 0.7 * s
    assert gap(model(tmp_path, "mimelite", {"alpha": 0.3}, **settings), w) < TOLERANCE


def test_fedrobust_with_a_large_penalty_is_fedavg(tmp_path):
    """With ascent 1 / (2 lambda eta) every step sets (a, b) to gradient / (2 lambda): nothing, as lambda grows."""
    plain, gaps = model(tmp_path, "fedavg", learning_rate_decay=1.0), []
    for strength in (1e3, 1e6):
        params = {"scale_penalty": strength, "shift_penalty": strength, "ascent": 1 / (2 * strength * 0.2)}
        gaps.append(gap(model(tmp_path, "fedrobust", params, learning_rate_decay=1.0), plain))
    assert gaps[0] > 1e-6 > gaps[1]


@EXECUTORS
def test_fedrobust_has_one_affine_map_for_images_of_one_pixel(executor):
    """A channel's scale and shift are then those of its pixel."""
    runs = [
        quadratic([[[4], [9]], [[7]]], [[1.0], [2.0]], [3.0], "fedrobust", {"affine": affine}, executor)
        for affine in ("channel", "diagonal")
    ]
    assert (after(4, runs[0]) == after(4, runs[1])).all()
    assert all(one.state.store["private"].all() for one in runs)


def test_fedrobust_rests_where_the_penalties_outweigh_the_ascent():
    """There g_w = -decay w, so 2 lambda_b b = -g_w and 2 lambda_a a = -g_w x on images (1 + a) x + b of one pixel x."""
    curvature, x, decay, scale, shift = 2.0, 4, 0.05, 40.0, 4.0
    params, settings = {"scale_penalty": scale, "shift_penalty": shift}, {"learning_rate": 0.02, "weight_decay": decay}
    point = quadratic([[[x]]], [[curvature]], [1.0], "fedrobust", params, "sequential", **settings)
    w = after(350, point)[0]
    a, b = point.state.store["private"][0].tolist()
    assert curvature * (w - (1 + a) * x - b) == pytest.approx(-decay * w, abs=1e-9)
    assert (a, b) == pytest.approx((decay * w * x / (2 * scale), decay * w / (2 * shift)), abs=1e-9)


def test_feddyn_paper_form_equals_code_form(tmp_path):
    """lambda_i <- lambda_i - penalty D_i, w = mean w_i - L / penalty with L the mean dual over all clients."""
    penalty, dynamic = 0.2, run(tmp_path, "feddyn", {"penalty": 0.2})
    for _ in range(4):
        dynamic.advance()
        duals = -penalty * dynamic.state.store["h"]
        mean = dynamic.algorithm.evaluated(dynamic.server)["mean"]
        assert gap(dynamic.server["w"][0], mean[0] - duals.mean(dim=0) / penalty) < TOLERANCE
        assert gap(dynamic.server["h"][0], dynamic.state.store["h"].mean(dim=0)) < TOLERANCE


@pytest.mark.parametrize(("sampling", "share"), [(EVERYBODY, 1.0), (HALF, 0.5)])
def test_feddyn_without_penalty_still_adds_mean_h(tmp_path, sampling, share):
    """Round 0: w^1 - w^0 = (1 + n/m) times FedAvg's."""
    average = step(tmp_path, "fedavg", **sampling)
    assert gap(step(tmp_path, "feddyn", {"penalty": 0.0}, **sampling), (1 + share) * average) < TOLERANCE


@pytest.mark.parametrize("name", ["feddyn", "fedspeed", "fedsmoo", "fedlesam_d"])
def test_duals_are_the_clients_gradients_at_rest(name):
    """grad F_i(w) = lambda_i = -penalty h_i, and they sum to zero."""
    params = {"penalty": 0.5} if name == "feddyn" else {"penalty": 0.5, "rho": 0.0}
    point = quadratic(T, A, [1.0, 2.0], name, params, "sequential", learning_rate=0.2)
    gradients = np.array(A) * (after(250, point) - np.array(T)[:, 0])
    assert np.abs(-0.5 * point.state.store["h"].numpy() - gradients).max() < 1e-9
    assert np.abs(gradients.sum(axis=0)).max() < 1e-9 < 1 < np.abs(gradients).min()


def test_fedsmoo_without_its_dual_is_fedspeed(tmp_path):
    """FedSMOO's Table 8: dynamic regularisation and SAM without SAM's correction."""

    class Uncorrected(algorithms.load("fedsmoo")):
        def perturbation(self, w, gradient, ctx):
            ctx.client["mu"].zero_()
            ctx.server["s"].zero_()
            return super().perturbation(w, gradient, ctx)

    params = {"rho": 0.3, "penalty": 0.2}
    uncorrected = simulation(tmp_path, description("fedsmoo"), algorithm=Uncorrected(**params))
    for _ in range(4):
        uncorrected.advance()
    assert gap(uncorrected.server["w"], model(tmp_path, "fedspeed", params)) < TOLERANCE


def test_equal_clients_need_no_control_variates():
    """Deterministic clients with the same data: SCAFFOLD is FedAvg."""
    same, start = ([[[40, 100]]] * 3, [[1.0, 3.0]] * 3), [1.0, 2.0]
    for clients, equal in ((same, True), ((T, A), False)):
        one, other = (after(5, quadratic(*clients, start, name, weight_decay=0.1)) for name in ("scaffold", "fedavg"))
        assert (np.abs(one - other).max() < TOLERANCE) == equal


def test_a_distance_pulls_as_torch_has_it_and_not_at_all_at_its_end():
    """FL-SAM@2c16149 has torch.norm(w - w_t, 2) in its loss, which begins every round at 0."""
    rows = torch.stack([torch.zeros(7), torch.randn(7, generator=torch.Generator().manual_seed(1))]).double()
    for row, direction in zip(rows, unit(rows), strict=True):
        w = row.clone().requires_grad_()
        torch.norm(w, 2).backward()
        assert torch.equal(w.grad, torch.zeros(7).double()) == (not row.any())
        assert (direction - w.grad).abs().max() < 1e-15
