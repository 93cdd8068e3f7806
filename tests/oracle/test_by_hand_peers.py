"""Two nodes, two local steps, two rounds on a quadratic, worked out in NumPy; and centralised training: two steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quadratic import after, quadratic
from test_by_hand_server import CLIP, DECAY, ETA, W0, A, T, clip, grad, mean, problem, same, unit

from flatfed import algorithms


def local_sgd(i, x, rho=None):
    """Two steps of SGD, or SAM, on node i."""
    for _ in range(2):
        e = rho * unit(grad(i, x)) if rho else 0
        x = x - ETA * (clip(grad(i, x + e)) + DECAY * x)
    return x


@pytest.mark.parametrize("order", ["paper", "official_code"])
def test_dpsgd(check, order):
    """x_i <- sum_l w_il x_l + local step at x_i; the official code trains from the mixed model."""
    x = [W0, W0]
    for _ in range(2):
        mixed = mean(x)
        if order == "paper":
            x = [mixed + (local_sgd(i, x[i]) - x[i]) for i in range(2)]
        else:
            x = [local_sgd(i, mixed) for i in range(2)]
    check(mean(x), "dpsgd", order=order)


@pytest.mark.parametrize(("name", "rho"), [("dfedavg", None), ("dfedsam", 0.3), ("dfedsam_mgs", 0.3)])
def test_train_then_mix(check, name, rho):
    """On two nodes one gossip step reaches the mean, and more leave it there."""
    x = [W0, W0]
    for _ in range(2):
        x = [mean([local_sgd(i, x[i], rho) for i in range(2)])] * 2
    check(x[0], name, rho=rho)


def test_dfedavgm(check):
    x, theta = [W0, W0], 0.5
    for _ in range(2):
        z = []
        for i in range(2):
            y, v = x[i], np.zeros(2)
            for _ in range(2):
                v = theta * v + clip(grad(i, y)) + DECAY * y
                y = y - ETA * v
            z.append(y)
        x = [mean(z)] * 2
    check(x[0], "dfedavgm", momentum=theta)


HALF = {"density": 0.5, "anneal": 1.0, "regrow": "gradient"}


def test_dispfl(executor):
    """One of two weights a node. Each round it is pruned, being the smallest, and the larger gradient's grows."""
    run = problem("dispfl", executor, HALF)
    m = run.state.store["mask"].numpy().copy()
    assert m.sum(axis=1).tolist() == [1, 1]
    x, s = [W0 * m[0], W0 * m[1]], m.copy()
    for _ in range(2):
        having = s[0] + s[1]
        mixed = np.where(having > 0, (x[0] + x[1]) / np.maximum(having, 1), 0)
        x, s = [m[i] * mixed for i in range(2)], m.copy()
        for i in range(2):
            for _ in range(2):
                g = grad(i, x[i])
                x[i] = (x[i] - ETA * (clip(g) + DECAY * x[i])) * m[i]
            m[i] = np.eye(2)[np.abs(g).argmax()]
    found = after(2, run)
    assert (run.state.store["mask"].numpy() == m).all()
    assert (run.state.store["shared"].numpy() == s).all()
    assert np.abs(found - mean(x)).max() < 1e-12


@pytest.mark.parametrize(("name", "rho"), [("centralised_sgd", None), ("centralised_sam", 0.3)])
def test_centralised(executor, name, rho):
    """Two rounds of two steps."""
    params, settings = {"rho": rho} if rho else {}, {"weight_decay": DECAY, "clip_norm": CLIP, "local_steps": 2}
    run = quadratic([[T[1].tolist()]], [A[1].tolist()], W0.tolist(), name, params, executor, **settings)
    same(after(2, run), local_sgd(1, local_sgd(1, W0, rho), rho))


def test_every_algorithm_is_worked_out():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_by_hand_*.py"))
    assert not [name for name in algorithms.names() if f'"{name}"' not in text]
