"""Two clients, two local steps, two rounds on a quadratic, worked out in NumPy: the algorithms with a server."""

from __future__ import annotations

import numpy as np
import pytest
from quadratic import after, quadratic

A = np.array([[1.0, 3.0], [2.0, 0.5]])  # curvatures of the two clients
T = np.array([[4, 10], [20, 6]])  # their minima
W0 = np.array([1.0, 2.0])
ETA, DECAY, CLIP = 0.1, 0.02, 25.0
EXECUTORS = pytest.mark.parametrize("executor", ["sequential", "stacked"])


def grad(i, w):
    return A[i] * (w - T[i])


def clip(g):
    return g * min(1.0, CLIP / (np.linalg.norm(g) + 1e-6))


def unit(v):
    return v / (np.linalg.norm(v) + 1e-7)


def engine(name, executor, **params):
    run = quadratic(
        T[:, None].tolist(), A.tolist(), W0.tolist(), name, params, executor, weight_decay=DECAY, clip_norm=CLIP
    )
    return after(2, run)


def same(found, expected):
    assert np.abs(found - expected).max() < 1e-12
    assert np.abs(expected - W0).min() > 0.1


def test_the_clip_is_active():
    assert np.linalg.norm(grad(0, W0)) < CLIP < np.linalg.norm(grad(1, W0))


@EXECUTORS
def test_fedavg(executor):
    w = W0
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(grad(i, x[i])) + DECAY * x[i])
        w = w + 0.7 * ((x[0] + x[1]) / 2 - w)
    same(engine("fedavg", executor, server_learning_rate=0.7), w)


@EXECUTORS
def test_fedprox(executor):
    w, mu = W0, 0.5
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(grad(i, x[i]) - mu * w) + (DECAY + mu) * x[i])
        w = (x[0] + x[1]) / 2
    same(engine("fedprox", executor, mu=mu), w)


@EXECUTORS
def test_fedadam(executor):
    w, m, v = W0, np.zeros(2), np.zeros(2)
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(grad(i, x[i])) + DECAY * x[i])
        change = (x[0] + x[1]) / 2 - w
        m = 0.9 * m + 0.1 * change
        v = 0.99 * v + 0.01 * change**2
        w = w + 0.5 * m / (np.sqrt(v) + 0.01)
    same(engine("fedadam", executor, server_learning_rate=0.5), w)


@EXECUTORS
@pytest.mark.parametrize(("name", "rho"), [("scaffold", None), ("fedgamma", 0.3)])
def test_scaffold_and_fedgamma(executor, name, rho):
    w, c, c_i = W0, np.zeros(2), np.zeros((2, 2))
    for _ in range(2):
        x, new = [w, w], np.zeros((2, 2))
        for i in range(2):
            for _ in range(2):
                e = rho * unit(grad(i, x[i])) if rho else 0
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e) - c_i[i] + c) + DECAY * x[i])
            new[i] = c_i[i] - c + (w - x[i]) / (2 * ETA)
        c = c + ((new[0] - c_i[0]) + (new[1] - c_i[1])) / 2
        w, c_i = (x[0] + x[1]) / 2, new
    same(engine(name, executor, **({"rho": rho} if rho else {})), w)


@EXECUTORS
@pytest.mark.parametrize(("name", "rho"), [("fedcm", None), ("mofedsam", 0.3)])
def test_fedcm_and_mofedsam(executor, name, rho):
    w, delta, alpha = W0, np.zeros(2), 0.4
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                e = rho * unit(grad(i, x[i])) if rho else 0
                x[i] = x[i] - ETA * (clip(alpha * grad(i, x[i] + e) + (1 - alpha) * delta) + DECAY * x[i])
        mean = (x[0] + x[1]) / 2
        delta = -(mean - w) / (2 * ETA)
        w = mean
    same(engine(name, executor, alpha=alpha, **({"rho": rho} if rho else {})), w)


@EXECUTORS
def test_mimelite(executor):
    w, s, alpha = W0, np.zeros(2), 0.4
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(alpha * grad(i, x[i]) + (1 - alpha) * s) + DECAY * x[i])
        s = alpha * (grad(0, w) + grad(1, w)) / 2 + (1 - alpha) * s
        w = (x[0] + x[1]) / 2
    same(engine("mimelite", executor, alpha=alpha), w)


@EXECUTORS
def test_fedrobust(executor):
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
        w = (x[0] + x[1]) / 2
    same(engine("fedrobust", executor, ascent=ascent, shift_penalty=0.5), w)


@EXECUTORS
@pytest.mark.parametrize(("name", "rho"), [("feddyn", None), ("fedspeed", 0.3), ("fedgmt", None)])
def test_feddyn_fedspeed_and_fedgmt_in_the_papers_dual_form(executor, name, rho):
    """lambda_i <- lambda_i - (x_i - w) / beta, w <- mean x - beta mean lambda: the code's h_i is -beta lambda_i."""
    w, dual, beta = W0, np.zeros((2, 2)), 5.0
    proximal = 0.0 if name == "fedgmt" else 1 / beta
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                e = rho * unit(grad(i, x[i])) if rho else 0
                linear = -dual[i] - proximal * w
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e) + linear) + (DECAY + proximal) * x[i])
            dual[i] = dual[i] - (x[i] - w) / beta
        w = (x[0] + x[1]) / 2 - beta * (dual[0] + dual[1]) / 2
    same(engine(name, executor, penalty=1 / beta, **({"rho": rho} if rho else {})), w)


@EXECUTORS
def test_fedsam(executor):
    w, rho = W0, 0.3
    for _ in range(2):
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                e = rho * unit(grad(i, x[i]))
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e)) + DECAY * x[i])
        w = (x[0] + x[1]) / 2
    same(engine("fedsam", executor, rho=rho), w)


@EXECUTORS
@pytest.mark.parametrize("form", ["official_code", "paper"])
def test_fedsmoo(executor, form):
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
        s = rho * unit((sent[0] + sent[1]) / 2)
        w = (x[0] + x[1]) / 2 - beta * (dual[0] + dual[1]) / 2
    same(engine("fedsmoo", executor, rho=rho, penalty=1 / beta, s=form), w)


@EXECUTORS
@pytest.mark.parametrize("first", ["unperturbed", "paper"])
def test_fedlesam(executor, first):
    """Everybody takes part, so that in round 2 both clients remember w^0; in round 1 Alg. 1 has w_old = 0."""
    w, rho = W0, 0.3
    old = np.zeros(2) if first == "paper" else W0
    for _ in range(2):
        e = rho * unit(old - w)
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e)) + DECAY * x[i])
        old, w = w, (x[0] + x[1]) / 2
    same(engine("fedlesam", executor, rho=rho, first=first), w)


@EXECUTORS
@pytest.mark.parametrize(("correction", "factor"), [("paper", 1.0), ("official_code", 0.1)])
def test_fedlesam_s(executor, correction, factor):
    w, old, rho = W0, W0, 0.3
    c, c_i = np.zeros(2), np.zeros((2, 2))
    for _ in range(2):
        e = rho * unit(old - w)
        x, new = [w, w], np.zeros((2, 2))
        for i in range(2):
            for _ in range(2):
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e) + factor * (c - c_i[i])) + DECAY * x[i])
            new[i] = c_i[i] - c + (w - x[i]) / (2 * ETA)
        c = c + (new - c_i).sum(axis=0) / 2
        old, w, c_i = w, (x[0] + x[1]) / 2, new
    same(engine("fedlesam_s", executor, rho=rho, correction=correction), w)


@EXECUTORS
def test_fedlesam_d(executor):
    w, old, rho, beta, dual = W0, W0, 0.3, 5.0, np.zeros((2, 2))
    for _ in range(2):
        e = rho * unit(old - w)
        x = [w, w]
        for i in range(2):
            for _ in range(2):
                linear = -dual[i] - w / beta
                x[i] = x[i] - ETA * (clip(grad(i, x[i] + e) + linear) + (DECAY + 1 / beta) * x[i])
            dual[i] = dual[i] - (x[i] - w) / beta
        old, w = w, (x[0] + x[1]) / 2 - beta * (dual[0] + dual[1]) / 2
    same(engine("fedlesam_d", executor, rho=rho, penalty=1 / beta), w)


@EXECUTORS
def test_fedwmsam(executor):
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
        c = c + ((new[0] - c_i[0]) + (new[1] - c_i[1])) / 2
        delta = -((x[0] + x[1]) / 2 - w) / (2 * ETA)
        w, c_i = (x[0] + x[1]) / 2, new
    same(engine("fedwmsam", executor, alpha=0.4, rho=rho, adaptation=share), w)
