"""Identities of the update rules: control variates and perturbations. Float64, with an active clip, weight decay,
partial participation, ragged batches and unequal clients unless an identity needs otherwise."""

from __future__ import annotations

import pytest
import torch
from test_identities import EVERYBODY, TOLERANCE, gap

from flatfed import algorithms
from harness import description, simulation, weights

LESAM = ("fedlesam", "fedlesam_s", "fedlesam_d")
BASES = {"fedlesam": "fedavg", "fedlesam_s": "scaffold", "fedlesam_d": "feddyn"}
BERNOULLI = {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"}


def perturbations(run, rounds: int) -> list[dict[int, list[torch.Tensor]]]:
    """Advance ``run``; return round -> client -> e of its steps, as the engine applies them."""
    algorithm, found = run.algorithm, []
    perturbation = algorithm.perturbation
    plan = run.plan

    def planned(clients, ahead=0):
        planned.clients = [int(c) for c in clients]
        return plan(clients, ahead)

    def watched(w, gradient, ctx):
        e = perturbation(w, gradient, ctx)
        for client, row in zip(planned.clients, e, strict=False):
            found[-1].setdefault(client, []).append(row.clone())
        return e

    run.plan, algorithm.perturbation = planned, watched
    for _ in range(rounds):
        found.append({})
        run.advance()
    return found


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("scaffold", {}),
        ("scaffold", {"steps": "official_code"}),
        ("fedgamma", {"rho": 0.3}),
        ("fedgamma", {"rho": 0.3, "steps": "official_code"}),
        ("fedlesam_s", {"rho": 0.3}),
        ("fedlesam_s", {"rho": 0.3, "correction": "official_code"}),
    ],
)
@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_c_is_the_mean_of_all_c_i(tmp_path, executor, name, params):
    run = simulation(tmp_path, description(name, params), executor)
    for _ in range(4):
        run.advance()
        assert gap(run.server["c"][0], run.state.store["c"].mean(dim=0)) < TOLERANCE
    assert run.server["c"].abs().max() > 1e-3 and not run.state.touched.all()


@pytest.mark.parametrize("name", LESAM)
def test_the_first_round_is_the_bases_whatever_rho(tmp_path, name):
    found = weights(tmp_path, description(name, {"rho": 50.0}), rounds=1)
    assert gap(found, weights(tmp_path, description(BASES[name]), rounds=1)) < TOLERANCE
    paper = weights(tmp_path, description(name, {"rho": 0.3, "first": "paper"}), rounds=1)
    assert gap(paper, found) > 1e-4


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", LESAM)
def test_every_client_is_pushed_rho_far_from_where_it_was(tmp_path, name, executor):
    """e_i = rho (w_old - w^t) / ||w_old - w^t||, one vector a round, w_old what i received last; 0 the first time."""
    run = simulation(tmp_path, description(name, {"rho": 0.3}), executor)
    received, old = [], {}
    advance = run.advance
    run.advance = lambda: (received.append(run.server["w"][0].clone()), advance())[1]
    seen, stale = perturbations(run, 4), 0
    for t, clients in enumerate(seen):
        for client, steps in clients.items():
            away = old[client][1] - received[t] if client in old else torch.zeros_like(received[t])
            assert all(torch.equal(e, steps[0]) for e in steps) and len(steps) > 1
            assert gap(steps[0], 0.3 * away / (away.norm() + 1e-7)) < TOLERANCE
            assert float(steps[0].norm()) == pytest.approx(0.3 if client in old else 0.0, abs=1e-5)
            stale += client in old and old[client][0] < t - 1
        old.update({client: (t, received[t]) for client in clients})
    assert stale, "some client must come back after a pause"


@pytest.mark.parametrize(("name", "params"), [("fedlesam", {}), ("fedlesam_s", {}), ("fedlesam_d", {"penalty": 0.2})])
@pytest.mark.parametrize(("sampling", "same"), [(EVERYBODY, True), (BERNOULLI, False)])
def test_one_direction_for_all_is_everybodys_own_when_all_are_active(tmp_path, name, params, sampling, same):
    found = [
        weights(tmp_path, description(name, {"rho": 0.3, "direction": direction, **params}, sampling=sampling))
        for direction in ("paper", "server_step")
    ]
    assert (gap(*found) < TOLERANCE) if same else (gap(*found) > 1e-4)


def test_alg_1_literally_begins_by_shrinking(tmp_path):
    """w_old = 0: e = -rho w^t / ||w^t||, at a client's first participation and never again."""
    run = simulation(tmp_path, description("fedlesam", {"rho": 0.3, "first": "paper"}))
    start = run.server["w"][0].clone()
    for steps in perturbations(run, 1)[0].values():
        assert gap(steps[0], -0.3 * start / (start.norm() + 1e-7)) < TOLERANCE


def test_the_official_correction_is_a_tenth_in_the_step_alone(tmp_path):
    """Before there is a correction nothing differs, c_i included; afterwards the models do."""
    runs = [
        simulation(tmp_path, description("fedlesam_s", {"rho": 0.3, "correction": form}))
        for form in ("paper", "official_code")
    ]
    for run in runs:
        run.advance()
    assert gap(runs[0].server["w"], runs[1].server["w"]) < TOLERANCE
    assert gap(runs[0].state.store["c"], runs[1].state.store["c"]) < TOLERANCE
    for run in runs:
        run.advance()
    assert gap(runs[0].server["w"], runs[1].server["w"]) > 1e-4


@pytest.mark.parametrize("name", ["fedsam", "mofedsam", "fedgamma", "fedspeed", "fedsmoo", "dfedsam", "dfedsam_mgs"])
def test_sams_perturbation_has_length_rho_at_every_step(tmp_path, name):
    """Over all weights together, not tensor by tensor; whatever corrections, clip and decay."""
    decentralised = algorithms.load(name).decentralised
    changes = {"topology": {"graph": "ring"}, "sampling": EVERYBODY} if decentralised else {}
    run = simulation(tmp_path, description(name, {"rho": 0.3}, **changes))
    seen = [e for clients in perturbations(run, 2) for steps in clients.values() for e in steps]
    assert len(seen) > 20
    assert max(abs(float(e.norm()) - 0.3) for e in seen) < 1e-5
    parts = seen[0].split(run.layout.sizes)
    assert max(float(part.norm()) for part in parts) < 0.3 - 1e-4


@pytest.mark.parametrize("form", ["official_code", "paper"])
@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_fedsmoos_dual_gathers_perturbations_less_the_global_one(tmp_path, executor, form):
    """mu_i grows by e - s at every step, over steps and rounds; s from the mean of what the active clients sent."""
    run = simulation(tmp_path, description("fedsmoo", {"rho": 0.3, "s": form}), executor)
    received, advance = [], run.advance
    run.advance = lambda: (received.append(run.server["s"][0].clone()), advance())[1]
    duals = torch.zeros_like(run.state.store["mu"])
    for t, clients in enumerate(perturbations(run, 4)):
        for client, steps in clients.items():
            duals[client] += sum(steps) - len(steps) * received[t]
    assert gap(run.state.store["mu"], duals) < TOLERANCE
    sent = [duals[client] - (steps[-1] if form == "paper" else 0) for client, steps in clients.items()]
    mean = sum(sent) / len(sent)
    assert gap(run.server["s"][0], 0.3 * mean / (mean.norm() + 1e-7)) < TOLERANCE
