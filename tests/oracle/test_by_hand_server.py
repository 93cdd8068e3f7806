"""Two clients, two local steps, two rounds on a quadratic, worked out in NumPy: the algorithms with a server."""

from __future__ import annotations

import numpy as np
import pytest
from quadratic import quadratic

A = np.array([[1.0, 3.0], [2.0, 0.5]])  # curvatures of the two clients
T = np.array([[4, 10], [20, 6]])  # their minima
W0 = np.array([1.0, 2.0])
ETA, DECAY, CLIP = 0.1, 0.02, 25.0


def grad(i, w):
    return A[i] * (w - T[i])


def clip(g):
    return g * min(1.0, CLIP / (np.linalg.norm(g) + 1e-6))


def unit(v):
    return v / (np.linalg.norm(v) + 1e-7)


def trained(w, linear=(0.0, 0.0), scale=1.0, rho=None, old=None, decay=DECAY):
    """Return both clients' models after two steps x <- x - eta (clip(scale grad(x + e) + linear_i) + decay x).

    With ``rho`` the perturbation e is SAM's, or FedLESAM's with the model that they remember, ``old``.
    """
    x = [w, w]
    for i in range(2):
        for _ in range(2):
            e = (rho or 0.0) * unit(grad(i, x[i]) if old is None else old - w)
            x[i] = x[i] - ETA * (clip(scale * grad(i, x[i] + e) + linear[i]) + decay * x[i])
    return x


def mean(x):
    return (x[0] + x[1]) / 2


def problem(name, executor, params):
    """Return the engine with algorithm ``name`` on both clients."""
    settings = {"weight_decay": DECAY, "clip_norm": CLIP}
    return quadratic(T[:, None].tolist(), A.tolist(), W0.tolist(), name, params, executor, **settings)


def same(found, expected):
    assert np.abs(found - expected).max() < 1e-12
    assert np.abs(expected - W0).min() > 0.1


def test_the_clip_is_active():
    assert np.linalg.norm(grad(0, W0)) < CLIP < np.linalg.norm(grad(1, W0))


@pytest.mark.parametrize(
    ("name", "rho", "rate", "mu"),
    [("fedavg", None, 0.7, None), ("fedsam", 0.3, 1.0, None), ("fedprox", None, 1.0, 0.5)],
)
def test_fedavg_fedsam_and_fedprox(check, name, rho, rate, mu):
    w, pull = W0, mu or 0.0
    for _ in range(2):
        w = w + rate * (mean(trained(w, [-pull * w, -pull * w], rho=rho, decay=DECAY + pull)) - w)
    check(w, name, server_learning_rate=rate, rho=rho, mu=mu)


def test_fedadam(check):
    w, m, v = W0, np.zeros(2), np.zeros(2)
    for _ in range(2):
        change = mean(trained(w)) - w
        m = 0.9 * m + 0.1 * change
        v = 0.99 * v + 0.01 * change**2
        w = w + 0.5 * m / (np.sqrt(v) + 0.01)
    check(w, "fedadam", server_learning_rate=0.5)


@pytest.mark.parametrize(
    ("name", "rho", "correction", "factor"),
    [
        *(("scaffold", None, None, 1.0), ("fedgamma", 0.3, None, 1.0)),
        *(("fedlesam_s", 0.3, "paper", 1.0), ("fedlesam_s", 0.3, "official_code", 0.1)),
    ],
)
def test_scaffold_fedgamma_and_fedlesam_s(check, name, rho, correction, factor):
    w, old, c, c_i = W0, W0, np.zeros(2), np.zeros((2, 2))
    for _ in range(2):
        x = trained(w, factor * (c - c_i), rho=rho, old=old if name == "fedlesam_s" else None)
        new = c_i - c + (w - np.array(x)) / (2 * ETA)
        c = c + (new - c_i).sum(axis=0) / 2
        old, w, c_i = w, mean(x), new
    check(w, name, rho=rho, correction=correction)


@pytest.mark.parametrize(("name", "rho"), [("fedcm", None), ("mofedsam", 0.3)])
def test_fedcm_and_mofedsam(check, name, rho):
    w, delta, alpha = W0, np.zeros(2), 0.4
    for _ in range(2):
        new = mean(trained(w, [(1 - alpha) * delta] * 2, alpha, rho=rho))
        delta = -(new - w) / (2 * ETA)
        w = new
    check(w, name, alpha=alpha, rho=rho)


def test_mimelite(check):
    w, s, alpha = W0, np.zeros(2), 0.4
    for _ in range(2):
        new = mean(trained(w, [(1 - alpha) * s] * 2, alpha))
        s = alpha * (grad(0, w) + grad(1, w)) / 2 + (1 - alpha) * s
        w = new
    check(w, "mimelite", alpha=alpha)


def test_fedrobust(check):
    """One scale a and one shift b for the only channel; the loss is 1/2 sum A (w - (1 + a) x - b)^2 - a^2 - b^2 / 2."""
    w, a, b, ascent = W0, np.zeros(2), np.zeros(2), 0.01
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                g = A[i] * (x[i] - (1 + a[i]) * T[i] - b[i])
                g_a, g_b = -(g * T[i]).sum(), -g.sum()
                x[i] = x[i] - ETA * (clip(g) + DECAY * x[i])
                a[i] = a[i] + ascent * ETA * (g_a - 2 * 1.0 * a[i])
                b[i] = b[i] + ascent * ETA * (g_b - 2 * 0.5 * b[i])
        w = mean(x)
    check(w, "fedrobust", ascent=ascent, shift_penalty=0.5)


@pytest.mark.parametrize(
    ("name", "rho"), [("feddyn", None), ("fedspeed", 0.3), ("fedlesam_d", 0.3), ("fedgmt", None)]
)
def test_feddyn_fedspeed_fedlesam_d_and_fedgmt_in_the_papers_dual_form(check, name, rho):
    """lambda_i <- lambda_i - (x_i - w) / beta, w <- mean x - beta mean lambda: the code's h_i is -beta lambda_i."""
    w, old, dual, beta = W0, W0, np.zeros((2, 2)), 5.0
    proximal = 0.0 if name == "fedgmt" else 1 / beta
    for _ in range(2):
        remembered = old if name == "fedlesam_d" else None
        x = trained(w, -dual - proximal * w, rho=rho, old=remembered, decay=DECAY + proximal)
        dual = dual - (np.array(x) - w) / beta
        old, w = w, mean(x) - beta * mean(dual)
    check(w, name, penalty=1 / beta, rho=rho)


@pytest.mark.parametrize("form", ["official_code", "paper"])
def test_fedsmoo(check, form):
    """Sun et al. 2023, Alg. 1, lines 8 to 19; the official code leaves the last perturbation out of line 13."""
    w, s, rho, beta = W0, np.zeros(2), 0.3, 5.0
    mu, dual = np.zeros((2, 2)), np.zeros((2, 2))
    for _ in range(2):
        x, sent = [w, w], np.zeros((2, 2))
        for i in range(2):
            for _ in range(2):
                e = rho * unit(grad(i, x[i]) - mu[i] - s)
                mu[i] = mu[i] + (e - s)
                linear = -dual[i] - w / beta
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e) + linear) + (DECAY + 1 / beta) * x[i])
            dual[i] = dual[i] - (x[i] - w) / beta
            sent[i] = mu[i] - (e if form == "paper" else 0)
        s = rho * unit(mean(sent))
        w = mean(x) - beta * mean(dual)
    check(w, "fedsmoo", rho=rho, penalty=1 / beta, s=form)


@pytest.mark.parametrize("first", ["unperturbed", "paper"])
def test_fedlesam(check, first):
    """Everybody takes part, so that in round 2 both clients remember w^0; in round 1 Alg. 1 has w_old = 0."""
    w, rho = W0, 0.3
    old = np.zeros(2) if first == "paper" else W0
    for _ in range(2):
        old, w = w, mean(trained(w, rho=rho, old=old))
    check(w, "fedlesam", rho=rho, first=first)


def test_fedwmsam(check):
    w, delta, alpha, rho, share = W0, np.zeros(2), 0.4, 0.3, 0.5
    c, c_i = np.zeros(2), np.zeros((2, 2))
    for _ in range(2):
        x, new, cosines = [w, w], np.zeros((2, 2)), np.zeros(2)
        for i in range(2):
            momentum = delta + alpha / (1 - alpha) * (c - c_i[i])
            for k in range(2):
                e = rho * unit(w + k * momentum - x[i])
                g = alpha * grad(i, x[i] + e) + (1 - alpha) * momentum
                x[i] = x[i] - ETA * (clip(g) + DECAY * x[i])
            moved = x[i] - w
            new[i] = c_i[i] - c - moved / (2 * ETA)
            cosines[i] = moved @ delta / (np.linalg.norm(moved) * np.linalg.norm(delta)) if delta.any() else -1
        alpha = (1 - share) * alpha + share * np.clip(1 + cosines.mean(), 0.1, 0.9)
        c = c + mean(new - c_i)
        delta = -(mean(x) - w) / (2 * ETA)
        w, c_i = mean(x), new
    check(w, "fedwmsam", alpha=0.4, rho=rho, adaptation=share)


@pytest.mark.parametrize("name", ["fedswa", "fedmoswa"])
def test_fedswa_and_fedmoswa(check, name):
    w, rho, alpha, gamma = W0, 0.2, 1.4, 0.3 if name == "fedmoswa" else 0.0
    m, c_i = np.zeros(2), np.zeros((2, 2))
    for _ in range(2):
        x, new = [w, w], c_i
        for i in range(2):
            for rate in (ETA, 0.5 * ETA + 0.5 * rho * ETA):
                x[i] = x[i] - rate * (clip(grad(i, x[i]) - c_i[i] + m) + DECAY * x[i])
        if name == "fedmoswa":
            new = c_i - m + (w - np.array(x)) / (1.5 * ETA + 0.5 * rho * ETA)
        m = m + gamma * mean(new - m)
        w, c_i = w + alpha * (mean(x) - w), new
    check(w, name, last_rate=rho, server_learning_rate=alpha, adaptation=gamma or None)
