"""Dropout masks: keyed, the same whatever the width, at their rate, and as good as independent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, linear, max_pool2d, relu

from flatfed.engine import batches, dropout
from flatfed.engine.executors import Batch
from harness import DROPOUT, description, simulation, write_problem

SITES = [((4, 3, 3), 0.25), ((7,), 0.5)]


def drawn(seed=1, round_=0, client=0, steps=3, sites=2) -> torch.Tensor:
    return torch.from_numpy(dropout.keys(seed, round_, client, steps, sites))


def triple32(x: int) -> int:
    """C. Wellons' function on one number, without its last shift, in whole numbers of Python."""
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        x = (x ^ x >> shift) * factor % 2**32
        yield x


def by_hand(key: tuple[int, int], count: int) -> list[int]:
    """Return draws of 16 bits, from -32768: low half, then high half, of every number."""
    found = []
    for place in range(count):
        (once, *_) = triple32(place ^ key[0] % 2**32)
        x = (once + key[1]) % 2**32
        for shift, factor in ((11, 0xAC4C1B51), (15, 0x31848BAB)):
            x = (x ^ x >> shift) * factor % 2**32
        found += [(half + 2**15) % 2**16 - 2**15 for half in (x % 2**16, x >> 16)]
    return found


def test_bits_by_hand():
    keys = drawn(steps=1)
    found = dropout.masks(keys, SITES, 2, torch.float64)
    for site, (mask, (shape, rate)) in enumerate(zip(found, SITES, strict=True)):
        size = 2 * math.prod(shape)
        draws = by_hand(tuple(keys[0, site].tolist()), -(-size // 2))[:size]
        expected = [1 / (1 - rate) if draw >= round(rate * 2**16) - 2**15 else 0.0 for draw in draws]
        assert mask.shape == (1, 2, *shape)
        assert mask.flatten().tolist() == expected


def test_a_mask_does_not_depend_on_width_or_company():
    keys = drawn()
    wide, narrow = dropout.masks(keys, SITES, 5, torch.float32), dropout.masks(keys[1:2], SITES, 2, torch.float32)
    for one, other in zip(wide, narrow, strict=True):
        assert torch.equal(one[1:2, :2], other)


def test_every_seed_round_client_step_and_site_has_a_key_of_its_own():
    seen = [
        tuple(pair)
        for seed, round_, client in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))
        for pair in dropout.keys(seed, round_, client, 50, 2).reshape(-1, 2).tolist()
    ]
    assert len(set(seen)) == len(seen) == 400
    assert np.array_equal(dropout.keys(1, 4, 7, 3, 2), dropout.keys(1, 4, 7, 3, 2))


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1, 0.9])
def test_the_rate_and_the_mean(rate):
    keys = drawn(steps=16, sites=1)
    (mask,) = dropout.masks(keys, [((250, 250), rate)], 1, torch.float64)
    kept = (mask > 0).double()
    deviation = math.sqrt(rate * (1 - rate) / kept.numel())
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation + 2**-16
    assert abs(mask.mean() - 1) < 5 * deviation / (1 - rate)
    each = kept.flatten(1).mean(dim=1)
    assert (each - (1 - rate)).abs().max() < 5 * deviation * 4


def test_a_rate_of_almost_one_is_not_one():
    (mask,) = dropout.masks(drawn(sites=1), [((200, 200), 1 - 1e-9)], 1, torch.float64)
    assert mask.isfinite().all() and 0 < (mask > 0).double().mean() < 1e-3


def test_masks_are_as_good_as_independent():
    """Neighbours in a mask, the same place in other steps, sites and clients: products of signs average to nothing."""
    keys = torch.cat([drawn(client=client, steps=8) for client in range(4)])
    first, second = (mask.flatten(1) * 2 - 1 for mask in dropout.masks(keys, [((128, 128), 0.5)] * 2, 1, torch.float64))
    first, second = first.clamp(-1, 1), second.clamp(-1, 1)
    limit = 5 / math.sqrt(first.numel())
    for lag in (1, 2, 3, 4, 8, 16, 64, 128, 1024, 4096):
        assert abs((first[:, lag:] * first[:, :-lag]).mean()) < 1.3 * limit, lag
    assert abs((first * second).mean()) < limit
    meeting = first @ first.T / first.shape[1]
    assert (meeting - torch.eye(len(keys))).abs().max() < 6 / math.sqrt(first.shape[1])
    runs = first.view(len(keys), -1, 8).gt(0).long() @ (2 ** torch.arange(8))
    counts = torch.bincount(runs.flatten(), minlength=256).double()
    expected = runs.numel() / 256
    chi = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi - 255) < 5 * math.sqrt(2 * 255)


def test_keys_that_differ_in_a_bit_give_masks_that_do_not_meet():
    for half in (0, 1):
        pair = torch.zeros(33, 1, 2, dtype=torch.int32)
        for bit in range(32):
            pair[bit + 1, 0, half] = 1 << bit if bit < 31 else -(1 << 31)
        (mask,) = dropout.masks(pair, [((128, 128), 0.5)], 1, torch.float64)
        signs = mask.flatten(1) - 1
        meeting = signs @ signs.T / signs.shape[1]
        assert (meeting - torch.eye(33)).abs().max() < 6 / math.sqrt(signs.shape[1]), half


@pytest.mark.parametrize("executor", ["stacked", "products"])
def test_a_step_uses_its_clients_masks(tmp_path, executor):
    """The gradients of two clients of unequal size against the model written out, with the masks of their keys."""
    write_problem(tmp_path, [5, 3])
    run = simulation(tmp_path, description("fedavg", model=DROPOUT, batch_size=5), executor)
    order = batches.longest_first(np.arange(2), run.sizes, run.schedule)
    plan = run.plan(order)
    assert plan.keys.shape == (2, plan.length, 2, 2)
    inputs = run.local_update.plain.feed.inputs(plan, run.device)
    batch: Batch = run.local_update.plain.feed.batch({name: values[:, 1] for name, values in inputs.items()})
    w = run.server["w"].expand(2, -1).contiguous()
    losses, _ = run.executor(w, batch)
    p = run.layout.views(w[0])
    for row, client in enumerate(order):
        count = int(run.sizes[client])
        own = torch.from_numpy(dropout.keys(run.seed, 0, int(client), plan.length, 2))[1:2]
        first, second = (mask[0] for mask in dropout.masks(own, run.model.dropout, count, run.dtype))
        x = run.data.batch(torch.from_numpy(plan.index[row, 1, :count]))
        x = torch.nn.functional.conv2d(x, p["conv1.weight"], p["conv1.bias"])
        x = relu(max_pool2d(torch.nn.functional.conv2d(relu(x), p["conv2.weight"], p["conv2.bias"]), 2)) * first
        x = relu(linear(x.flatten(1), p["dense1.weight"], p["dense1.bias"])) * second
        x = linear(x, p["dense2.weight"], p["dense2.bias"])
        labels = run.data.labels[plan.index[row, 1, :count]]
        assert losses[row].item() == pytest.approx(cross_entropy(x, labels).item(), rel=1e-12)
