"""Identities of control variates and perturbations."""

from __future__ import annotations

import pytest
import torch
from exact import EXECUTORS, ONE_STEP, RING, TOLERANCE, gap, run

from flatfed import algorithms

LESAM = ("fedlesam", "fedlesam_s", "fedlesam_d")
RHO = {"rho": 0.3}
STEPS = {"steps": "official_code"}
SAM = ["fedsam", "mofedsam", "fedgamma", "fedspeed", "fedsmoo", "dfedsam", "dfedsam_mgs"]


def along(away: torch.Tensor) -> torch.Tensor:
    return 0.3 * away / (away.norm() + 1e-7)


def perturbations(found, rounds: int, vector: str = "w"):
    """Advance a run; return by round its server's ``vector`` before it, and client -> e of its steps as applied."""
    plan, perturbation, received, seen = found.plan, found.algorithm.perturbation, [], []

    def planned(clients, ahead=0):
        planned.clients = [int(client) for client in clients]
        return plan(clients, ahead)

    def watched(w, gradient, ctx):
        e = perturbation(w, gradient, ctx)
        for client, row in zip(planned.clients, e, strict=False):
            seen[-1].setdefault(client, []).append(row.clone())
        return e

    found.plan, found.algorithm.perturbation = planned, watched
    for _ in range(rounds):
        seen.append({})
        received.append(found.server[vector][0].clone())
        found.advance()
    return received, seen


@EXECUTORS
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("scaffold", {}),
        ("scaffold", STEPS),
        ("fedgamma", {**RHO, **STEPS}),
        ("fedlesam_s", {**RHO, "correction": "official_code"}),
    ],
)
def test_c_is_the_mean_of_all_c_i(tmp_path, executor, name, params):
    variates = run(tmp_path, name, params, executor=executor)
    for _ in range(4):
        variates.advance()
        assert gap(variates.server["c"][0], variates.state.store["c"].mean(dim=0)) < TOLERANCE
    assert variates.server["c"].abs().max() > 1e-3 and not variates.state.touched.all()


@EXECUTORS
@pytest.mark.parametrize("name", LESAM)
@pytest.mark.parametrize("first", ["unperturbed", "paper"])
def test_every_client_is_pushed_rho_far_from_where_it_was(tmp_path, name, executor, first):
    """e_i = rho (w_old - w^t) / ||w_old - w^t||, one vector a round, w_old what i received last.

    The first time 0, or in Alg. 1 w_old = 0, which begins by shrinking.
    """
    pushed = run(tmp_path, name, {**RHO, "first": first}, executor=executor)
    (received, seen), old, stale = perturbations(pushed, 4), {}, 0
    for t, clients in enumerate(seen):
        for client, steps in clients.items():
            away = old[client][1] - received[t] if client in old else -received[t] * (first == "paper")
            assert all(torch.equal(e, steps[0]) for e in steps) and len(steps) > 1
            assert gap(steps[0], along(away)) < TOLERANCE
            stale += client in old and old[client][0] < t - 1
        old.update({client: (t, received[t]) for client in clients})
    assert stale, "some client must come back after a pause"


def test_the_official_correction_is_a_tenth_in_the_step_alone(tmp_path):
    """Before there is a correction nothing differs, c_i included."""
    forms = [run(tmp_path, "fedlesam_s", {**RHO, "correction": form}, 1) for form in ("paper", "official_code")]
    assert gap(*(one.state.store["c"] for one in forms)) < TOLERANCE


@pytest.mark.parametrize("name", SAM)
def test_sams_perturbation_has_length_rho_at_every_step(tmp_path, name):
    """Over all weights together, not tensor by tensor; whatever corrections, clip and decay."""
    sharp = run(tmp_path, name, RHO, **(RING if algorithms.load(name).decentralised else {}))
    seen = [e for clients in perturbations(sharp, 2)[1] for steps in clients.values() for e in steps]
    assert len(seen) > 20
    assert max(abs(float(e.norm()) - 0.3) for e in seen) < 1e-5
    assert max(float(part.norm()) for part in seen[0].split(sharp.layout.sizes)) < 0.3 - 1e-4


@EXECUTORS
@pytest.mark.parametrize("form", ["official_code", "paper"])
def test_fedsmoos_dual_gathers_perturbations_less_the_global_one(tmp_path, executor, form):
    """mu_i grows by e - s at every step, over steps and rounds; s from the mean of what the active clients sent."""
    smoo = run(tmp_path, "fedsmoo", {**RHO, "s": form}, executor=executor)
    duals = torch.zeros_like(smoo.state.store["mu"])
    received, seen = perturbations(smoo, 4, "s")
    for s, clients in zip(received, seen, strict=True):
        for client, steps in clients.items():
            duals[client] += sum(steps) - len(steps) * s
    assert gap(smoo.state.store["mu"], duals) < TOLERANCE
    sent = [duals[client] - (steps[-1] if form == "paper" else 0) for client, steps in clients.items()]
    assert gap(smoo.server["s"][0], along(sum(sent) / len(sent))) < TOLERANCE


@pytest.mark.parametrize(("form", "length"), [("official_code", 0.3), ("paper", 0.0)])
def test_fedsmoos_global_perturbation_has_length_rho(tmp_path, form, length):
    """After one round of one step mu_i = e_i: of length rho, and mu_i - e_i, the paper's, is nothing."""
    smoo = run(tmp_path, "fedsmoo", {**RHO, "s": form}, 1, **ONE_STEP)
    assert smoo.state.store["mu"][smoo.state.touched].norm(dim=1).sub(0.3).abs().max() < 1e-6
    assert float(smoo.server["s"].norm()) == pytest.approx(length, abs=1e-6)
    assert float(run(tmp_path, "fedsmoo", {**RHO, "s": form}, 3).server["s"].norm()) == pytest.approx(0.3, abs=1e-6)
