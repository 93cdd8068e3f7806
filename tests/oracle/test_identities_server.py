"""Identities of the update rules that are no reductions: algorithms with a server. Float64, 1e-12, with an active
clip, weight decay, partial participation, ragged batches and unequal clients unless an identity needs otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic import after, quadratic
from test_identities import EVERYBODY, PLAIN, TOLERANCE, gap

from flatfed import algorithms
from flatfed.algorithms._rows import unit
from harness import SIZES, Reference, description, simulation, weights, write_problem

ONE_STEP = {"local_epochs": 1, "batch_size": max(SIZES)}
SCALED = [name for name in algorithms.names() if "server_learning_rate" in algorithms.load(name).parameters()]
A, T = [[1.0, 3.0], [2.0, 1.5], [4.0, 1.0]], [[[40, 100]], [[200, 60]], [[90, 250]]]  # curvatures, minima


def first_step(folder, name: str, params: dict, **changes) -> torch.Tensor:
    """Return w^1 - w^0."""
    run = simulation(folder, description(name, params, **changes))
    start = run.server["w"].clone()
    run.advance()
    return run.server["w"] - start


@pytest.mark.parametrize("name", SCALED)
def test_the_server_learning_rate_scales_the_first_step(tmp_path, name):
    whole = first_step(tmp_path, name, {"server_learning_rate": 1.0})
    assert gap(first_step(tmp_path, name, {"server_learning_rate": 0.3}), 0.3 * whole) < TOLERANCE
    assert whole.abs().max() > 1e-4


def test_fedprox_begins_as_fedavg(tmp_path):
    """At w^t the proximal term's gradient is zero, but an active clip sees its linear half alone."""
    idle = first_step(tmp_path, "fedprox", {"mu": 0.7}, **ONE_STEP, clip_norm=None)
    assert gap(idle, first_step(tmp_path, "fedavg", {}, **ONE_STEP, clip_norm=None)) < TOLERANCE
    clipped = first_step(tmp_path, "fedprox", {"mu": 0.7}, **ONE_STEP, clip_norm=0.4)
    assert gap(clipped, first_step(tmp_path, "fedavg", {}, **ONE_STEP, clip_norm=0.4)) > 1e-4


def test_fedprox_holds_clients_back(tmp_path):
    """One client's two steps towards t from w: the second one is drawn back by eta mu of the first."""
    eta, mu, w, t, a = 0.1, 0.5, 2.0, 4.0, 3.0
    run = quadratic([[[4]]], [[a]], [w], "fedprox", {"mu": mu})
    first = -eta * a * (w - t)
    second = -eta * (a * (w + first - t) + mu * first)
    assert after(1, run)[0] == pytest.approx(w + first + second, abs=1e-12)


def test_fedadam_stays_where_nothing_moves(tmp_path):
    """Mean update 0 and no first moment: 0 / (0 + tau)."""
    assert not first_step(tmp_path, "fedadam", {}, learning_rate=0.0).any()


@pytest.mark.parametrize(("name", "params"), [("fedcm", {}), ("mofedsam", {"rho": 0.3})])
def test_the_papers_scaling_is_averaging_where_eta_g_is_eta_times_k(tmp_path, name, params):
    """Qu et al., Alg. 2: equal clients and a constant rate; K = 2 ceil(8 / 3) = 6."""
    write_problem(tmp_path, [8] * 6)
    spec = dict(batch_size=3, learning_rate_decay=1.0)
    paper = {**params, "alpha": 0.3, "scaling": "paper", "server_learning_rate": 0.2 * 6}
    averaged = weights(tmp_path, description(name, {**params, "alpha": 0.3}, **spec))
    assert gap(weights(tmp_path, description(name, paper, **spec)), averaged) < TOLERANCE
    other = {**paper, "server_learning_rate": 1.0}
    assert gap(weights(tmp_path, description(name, other, **spec)), averaged) > 1e-4


def test_fedcm_feeds_weight_decay_back_and_mimelite_does_not():
    """At rest g + (decay / alpha) w = 0 with FedCM, whose Delta holds the decay, and g + decay w = 0 with MimeLite."""
    a, t, decay, alpha = 2.0, 100.0, 0.3, 0.25
    for name, effective in (("fedcm", decay / alpha), ("mimelite", decay)):
        run = quadratic([[[100]]], [[a]], [1.0], name, {"alpha": alpha}, weight_decay=decay)
        found = after(400, run)[0]
        assert found == pytest.approx(a * t / (a + effective), abs=1e-9), name


def test_mimelite_is_a_heavy_ball_that_lags_a_round(tmp_path):
    """One full-batch step, everybody active: w <- w - eta [alpha g + (1 - alpha) s + decay w], s from last round."""
    spec = description("mimelite", {"alpha": 0.3}, sampling=EVERYBODY, clip_norm=None, **ONE_STEP)
    reference = Reference(tmp_path, spec)
    w, s = reference.w.clone(), torch.zeros_like(reference.w)
    for t in range(4):
        g = sum(reference.gradient(w, own) for own in reference.members) / reference.m
        w = w - 0.2 * 0.9**t * (0.3 * g + 0.7 * s + spec["weight_decay"] * w)
        s = 0.3 * g + 0.7 * s
    assert gap(weights(tmp_path, spec), w) < TOLERANCE


def test_fedrobust_with_a_large_penalty_is_fedavg(tmp_path):
    """With ascent 1 / (2 lambda eta) every step sets (a, b) to gradient / (2 lambda): nothing, as lambda grows."""
    rate = dict(learning_rate=0.2, learning_rate_decay=1.0)
    plain = weights(tmp_path, description("fedavg", **rate))
    gaps = []
    for strength in (1e3, 1e6):
        params = {"scale_penalty": strength, "shift_penalty": strength, "ascent": 1 / (2 * strength * 0.2)}
        gaps.append(gap(weights(tmp_path, description("fedrobust", params, **rate)), plain))
    assert gaps[0] > 1e-6 > gaps[1]


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_fedrobust_has_one_affine_map_for_images_of_one_pixel(executor):
    """A channel's scale and shift are then those of its pixel."""
    found = []
    for affine in ("channel", "diagonal"):
        run = quadratic([[[4], [9]], [[7]]], [[1.0], [2.0]], [3.0], "fedrobust", {"affine": affine}, executor)
        found.append(after(4, run))
        assert run.state.store["private"].all()
    assert (found[0] == found[1]).all()


def test_fedrobust_rests_where_the_penalties_outweigh_the_ascent():
    """There g_w = -decay w, so 2 lambda_b b = -g_w and 2 lambda_a a = -g_w x on images (1 + a) x + b of one pixel x."""
    curvature, x, decay, scale, shift = 2.0, 4, 0.05, 40.0, 4.0
    params = {"scale_penalty": scale, "shift_penalty": shift}
    run = quadratic([[[x]]], [[curvature]], [1.0], "fedrobust", params, learning_rate=0.02, weight_decay=decay)
    w = after(600, run)[0]
    a, b = run.state.store["private"][0].tolist()
    assert curvature * (w - (1 + a) * x - b) == pytest.approx(-decay * w, abs=1e-9)
    assert (a, b) == pytest.approx((decay * w * x / (2 * scale), decay * w / (2 * shift)), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "params"),
    [("feddyn", {}), ("fedspeed", {"rho": 0.0}), ("fedsmoo", {"rho": 0.0}), ("fedlesam_d", {"rho": 0.0})],
)
def test_duals_are_the_clients_gradients_at_rest(name, params):
    """grad F_i(w) = lambda_i = -penalty h_i, and they sum to zero."""
    run = quadratic(T, A, [1.0, 2.0], name, {"penalty": 0.5, **params}, learning_rate=0.2)
    w = after(400, run)
    own = np.array(A) * (w - np.array(T)[:, 0])
    assert np.abs(-0.5 * run.state.store["h"].numpy() - own).max() < 1e-9
    assert np.abs(own.sum(axis=0)).max() < 1e-9 < 1 < np.abs(own).min()


@pytest.mark.parametrize(("sampling", "same"), [(EVERYBODY, True), ({"scheme": "fixed", "fraction": 0.5}, False)])
def test_both_averages_of_fedspeed_agree_when_everybody_is_active(tmp_path, sampling, same):
    found = [
        weights(tmp_path, description("fedspeed", {"rho": 0.3, "average": average}, sampling=sampling))
        for average in ("official_code", "active_clients")
    ]
    assert (gap(*found) < TOLERANCE) if same else (gap(*found) > 1e-4)


def test_fedsmoo_begins_as_fedspeed(tmp_path):
    """With mu_i = 0 and s = 0 the perturbation is SAM's: for the first step, and only for it."""
    params = {"rho": 0.3, "penalty": 0.2}
    one = [first_step(tmp_path, name, params, **ONE_STEP) for name in ("fedsmoo", "fedspeed")]
    assert gap(*one) < TOLERANCE
    more = [first_step(tmp_path, name, params) for name in ("fedsmoo", "fedspeed")]
    assert gap(*more) > 1e-4


def test_fedsmoo_without_its_dual_is_fedspeed(tmp_path):
    """FedSMOO's Table 8: dynamic regularisation and SAM without SAM's correction."""

    class Uncorrected(algorithms.load("fedsmoo")):
        def perturbation(self, w, gradient, ctx):
            ctx.client["mu"].zero_()
            ctx.server["s"].zero_()
            return super().perturbation(w, gradient, ctx)

    params = {"rho": 0.3, "penalty": 0.2}
    run = simulation(tmp_path, description("fedsmoo"), algorithm=Uncorrected(**params))
    for _ in range(4):
        run.advance()
    assert gap(run.server["w"][0], weights(tmp_path, description("fedspeed", params))) < TOLERANCE


@pytest.mark.parametrize("form", ["official_code", "paper"])
def test_fedsmoos_global_perturbation_has_length_rho(tmp_path, form):
    """After one round of one step mu_i = e_i: of length rho, and mu_i - e_i, the paper's, is nothing."""
    run = simulation(tmp_path, description("fedsmoo", {"rho": 0.3, "s": form}, **ONE_STEP))
    run.advance()
    touched = run.state.touched
    assert run.state.store["mu"][touched].norm(dim=1).sub(0.3).abs().max() < 1e-6
    assert float(run.server["s"].norm()) == pytest.approx(0.3 if form == "official_code" else 0.0, abs=1e-6)
    more = simulation(tmp_path, description("fedsmoo", {"rho": 0.3, "s": form}))
    for _ in range(3):
        more.advance()
        assert float(more.server["s"].norm()) == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("parts", [(2, 5), (4, 7)])
def test_centralised_epochs_run_through_rounds(tmp_path, parts):
    """At a constant rate the steps are the same however rounds cut them, also in the middle of an epoch."""
    write_problem(tmp_path, [sum(SIZES)])
    central = dict(partition={"scheme": "central", "clients": 1}, sampling=EVERYBODY, learning_rate_decay=1.0)
    found = []
    for steps in parts:
        spec = description("centralised_sgd", **central, local_steps=steps, rounds=100)
        found.append(weights(tmp_path, spec, rounds=parts[0] * parts[1] // steps))
    assert gap(*found) < TOLERANCE


def test_equal_clients_need_no_control_variates():
    """Deterministic clients with the same data: SCAFFOLD is FedAvg."""
    same = ([[[40, 100]]] * 3, [[1.0, 3.0]] * 3, [1.0, 2.0])
    found = [after(5, quadratic(*same, name, weight_decay=0.1)) for name in ("scaffold", "fedavg")]
    assert np.abs(found[0] - found[1]).max() < TOLERANCE
    apart = [after(5, quadratic(T, A, [1.0, 2.0], name)) for name in ("scaffold", "fedavg")]
    assert np.abs(apart[0] - apart[1]).max() > 1e-2


def test_the_union_of_equal_clients_is_descended_by_every_plain_method(tmp_path):
    """Equal sizes, one full-batch step, everybody active, no clip: the mean gradient is that of all data."""
    write_problem(tmp_path, [8] * 6)
    spec = dict(sampling=EVERYBODY, local_epochs=1, batch_size=8, **PLAIN)
    expected = weights(tmp_path, description("fedavg", **spec))
    for name in ("scaffold", "fedprox"):
        assert gap(weights(tmp_path, description(name, **spec)), expected) < TOLERANCE


def test_a_distance_pulls_as_torch_has_it_and_not_at_all_at_its_end():
    """FL-SAM@2c16149 has torch.norm(w - w_t, 2) in its loss, which begins every round at 0."""
    rows = torch.stack([torch.zeros(7), torch.randn(7, generator=torch.Generator().manual_seed(1))]).double()
    for row, found in zip(rows, unit(rows), strict=True):
        w = row.clone().requires_grad_()
        torch.norm(w, 2).backward()
        assert torch.equal(w.grad, torch.zeros(7).double()) == (not row.any())
        assert (found - w.grad).abs().max() < 1e-15
