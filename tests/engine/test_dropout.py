"""Dropout masks: keyed, at their rate, and as good as independent."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy, linear, max_pool2d, relu

from flatfed.engine import batches, dropout
from harness import DROPOUT, description, simulation, write_problem


def drawn(client=0, steps=3, sites=2) -> torch.Tensor:
    return torch.from_numpy(dropout.keys(1, 0, client, steps, sites))


def test_every_seed_round_client_step_and_site_has_its_key():
    sources = (1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)
    pairs = np.concatenate([dropout.keys(*source, 50, 2).reshape(-1, 2) for source in sources])
    assert len(np.unique(pairs, axis=0)) == 400
    assert np.array_equal(dropout.keys(1, 4, 7, 3, 2), dropout.keys(1, 4, 7, 3, 2))


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.9, 1 - 1e-9])
def test_the_rate_of_masks(rate):
    (mask,) = dropout.masks(drawn(steps=16, sites=1), [((250, 250), rate)], 1, torch.float64)
    kept, deviation = (mask > 0).double(), math.sqrt(rate * (1 - rate) / mask.numel())
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation + 2**-15
    assert mask.any() and abs(mask.mean() - 1) < 5 * deviation / (1 - rate), "outputs keep their mean"


def apart(signs: torch.Tensor) -> bool:
    """Return whether rows of random signs have no correlation."""
    products = signs @ signs.T / signs.shape[1]
    return (products - torch.eye(len(signs))).abs().max() < 6 / math.sqrt(signs.shape[1])


def test_masks_are_as_good_as_independent():
    """Neighbours in a mask, the same place in other steps, sites and clients: products of signs average to nothing."""
    keys = torch.cat([drawn(client=client, steps=8) for client in range(4)])
    sites = [((128, 128), 0.5)] * 2
    first, second = ((mask > 0).flatten(1) * 2.0 - 1 for mask in dropout.masks(keys, sites, 1, torch.float64))
    limit = 5 / math.sqrt(first.numel())
    for lag in (1, 2, 3, 4, 8, 16, 64, 128, 1024, 4096):
        assert abs((first[:, lag:] * first[:, :-lag]).mean()) < 1.3 * limit, lag
    assert abs((first * second).mean()) < limit and apart(first)


@pytest.mark.parametrize("executor", ["stacked", "products"])
def test_a_step_uses_its_clients_masks(tmp_path, executor):
    """The losses of two clients of unequal size against the model written out, with the masks of their keys."""
    write_problem(tmp_path, [5, 3])
    run = simulation(tmp_path, description("fedavg", model=DROPOUT, batch_size=5), executor)
    order, update = batches.longest_first(np.arange(2), run.sizes, run.schedule), run.local_update.plain
    plan = run.plan(order)
    assert plan.keys.shape == (2, plan.length, 2, 2)
    batch = update.batch({name: values[:, 1] for name, values in run.data.inputs(plan).items()})
    w = run.server["w"].expand(2, -1).contiguous()
    losses, _ = run.executor(w, batch)
    p = run.layout.views(w[0])
    for row, client in enumerate(order):
        index = torch.from_numpy(plan.index[row, 1, : int(run.sizes[client])])
        keys = torch.from_numpy(dropout.keys(run.seed, 0, int(client), plan.length, 2))[1:2]
        first, second = (mask[0] for mask in dropout.masks(keys, run.model.dropout, len(index), run.dtype))
        x = relu(conv2d(run.data.batch(index), p["conv1.weight"], p["conv1.bias"]))
        x = relu(max_pool2d(conv2d(x, p["conv2.weight"], p["conv2.bias"]), 2)) * first
        x = relu(linear(x.flatten(1), p["dense1.weight"], p["dense1.bias"])) * second
        x = linear(x, p["dense2.weight"], p["dense2.bias"])
        assert losses[row].item() == pytest.approx(cross_entropy(x, run.data.labels[index]).item(), rel=1e-12)
