"""Where every algorithm ends on a strongly convex quadratic, as claims.py has it: at the optimum, where drift is
corrected; at the fixed point of its round map, in closed form; with SAM or an estimate of it, within O(rho) of either.

Three clients, two full-batch local steps. Without perturbation a round maps every coordinate linearly, and at its fixed
point w = sum_i u_i t_i / sum_i u_i: t_i is client i's own minimum, and u_i (t_i - w) what it moves w by, up to a factor
that clients share.
"""

from __future__ import annotations

import numpy as np
import pytest
from claims import CLAIMS, PER_RHO
from quadratic import after, quadratic

from flatfed import algorithms
from samples import sampled

A = np.array([[1.0, 3.0], [2.0, 1.5], [4.0, 1.0]])  # curvatures
T = np.array([[40, 100], [200, 60], [90, 250]])  # minima
ETA = 0.2
RHOS = [0.02, 0.4]
ROUNDS, LAST = 120, 20
SLOW = {"dpsgd": 250, "fedadam": 250}  # rounds of those that take longer

DUAL = ("feddyn", "fedspeed", "fedsmoo", "fedlesam_d")
#: Parameters other than the defaults, for convergence in few rounds.
PARAMS = {
    "fedadam": {"server_learning_rate": 2.0, "beta1": 0.5, "beta2": 0.9, "tau": 2.0},
    "fedmoswa": {"adaptation": 0.8},
    "fedwmsam": {"alpha": 0.7, "adaptation": 0.0},
    **{name: {"alpha": 0.7} for name in ("fedcm", "mofedsam", "mimelite")},
    **{name: {"penalty": 1.0} for name in (*DUAL, "fedgmt")},
    **{"fedprox": {"mu": 0.5}, "dfedavgm": {"momentum": 0.5}, "dispfl": {"density": 1.0}, "fedrobust": {"ascent": 0.0}},
}
NAMES = algorithms.names()
CLAIMING = [name for name in NAMES if CLAIMS[name].ends_at]
#: Control variates, dual variables, gossip.
SAMPLE = ("scaffold", "fedsmoo", "dfedsam_mgs")
PERTURBED = [name for name in CLAIMING if "rho" in algorithms.load(name).parameters()]


def moved(a):
    """1 - (1 - eta a)^2: how far two steps go towards a client's minimum."""
    return 1 - (1 - ETA * a) ** 2


def shares(name: str) -> np.ndarray:
    """Return u (clients, 2) of the fixed point of algorithm ``name``."""
    p = PARAMS.get(name, {})
    if name == "fedprox":  # two steps towards (a t + mu w) / (a + mu)
        return moved(A + p["mu"]) * A / (A + p["mu"])
    if name in ("fedcm", "mofedsam"):  # w rests, so Delta is 0
        return moved(p["alpha"] * A)
    if name == "mimelite":  # s is the mean gradient: every client steps towards t - (1 - alpha) s / (alpha a)
        own = moved(p["alpha"] * A)
        return own + (1 - p["alpha"]) / p["alpha"] * (own / A).mean(axis=0) * A
    if name == "dfedavgm":  # v_1 = d_1; v_2 = theta d_1 + d_2, d_2 = (1 - eta a) d_1
        return A * (2 + p["momentum"] - ETA * A)
    if name == "fedswa":  # its second step has 1 - 0.9 / 2 of the rate
        return 1 - (1 - ETA * A) * (1 - 0.55 * ETA * A)
    if name == "dpsgd":  # x_i = xbar + moved_i (t_i - x_i)
        return moved(A) / (1 + moved(A))
    return moved(A)


def end(name: str) -> np.ndarray:
    """Return the point (2,) that algorithm ``name`` claims to end at, or near."""
    kind = algorithms.load(name)
    if kind.central:
        return T[0].astype(float)
    u = A if CLAIMS[name].ends_at == "optimum" else shares(name)
    return (u * T).sum(axis=0) / u.sum(axis=0)


def last_models(name: str, **params: float):
    """Return algorithm ``name`` at its end, and the models (LAST, 2) of the last rounds."""
    central = algorithms.load(name).central
    samples, curvature = (T[:1], A[:1]) if central else (T, A)
    changes = {"evaluation": {"every": 10**6, "sets": ["test"], "batch_size": 7}, "learning_rate": ETA}
    changes |= {"local_steps": 2} if central else {}
    params = {**PARAMS.get(name, {}), **params}
    run = quadratic(samples[:, None].tolist(), curvature.tolist(), [1.0, 2.0], name, params, "sequential", **changes)
    after(SLOW.get(name, ROUNDS) - LAST, run)
    return run, np.array([after(1, run) for _ in range(LAST)])


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
def test_ends_there_without_perturbation(name):
    """There the duals of FedDyn's kind are the clients' gradients, grad F_i(w) = -penalty h_i, and sum to zero.

    DisPFL with all weights and FedRobust without ascent claim nothing else: they are local SGD.
    """
    run, models = last_models(name, **({"rho": 0.0} if "rho" in algorithms.load(name).parameters() else {}))
    assert np.linalg.norm(models - end(name), axis=1).max() < 1e-9
    if name in DUAL:
        gradients = A * (models[-1] - T)
        assert np.abs(-PARAMS[name]["penalty"] * run.state.store["h"].numpy() - gradients).max() < 1e-8
        assert np.abs(gradients.sum(axis=0)).max() < 1e-8 < 1 < np.abs(gradients).min()


@pytest.mark.parametrize("rho", sampled(RHOS, RHOS[1:]))
@pytest.mark.parametrize("name", sampled(PERTURBED, SAMPLE))
def test_ends_within_the_claimed_radius(name, rho):
    found = np.linalg.norm(last_models(name, rho=rho)[1] - end(name), axis=1)
    assert found.max() <= PER_RHO * rho
    assert found.max() > 1e-4 * rho, "a perturbation that does nothing"
