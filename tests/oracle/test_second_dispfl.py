"""The second implementation of DisPFL itself: two nodes and one tensor of four weights, worked out by hand.

Node i has the loss 1/2 |w - c_i|^2 with c_0 = (8, 0, 10, 6), c_1 = (2, 12, 0, 16), takes one local step a round at rate
1/2, so w <- (w + c_i) / 2 where its mask is, and averages with the other node. Two of four weights are kept; one of
them is replaced in round 0 (0.5 * 2) and one in round 1 of 2 (ceil(0.25 * 2)); what regrows has the largest gradient.
First weights (4, 4, 4, 4), first masks 1100 and 0110.

Round 0. Average: the first weights under the own mask, (4, 4, 0, 0) and (0, 4, 4, 0).
    node 0: gradient (-4, 4, -10, -6), weights (6, 2, 0, 0); the 2 goes, of the others -10 is largest: mask 1010
    node 1: gradient (-2, -8, 4, -16), weights (0, 8, 2, 0); the 2 goes, of the others -16 is largest: mask 0101
Round 1. Shared are the weights as they were trained, divided by the masks they were trained under, 1100 and 0110:
    (6, 2 + 8, 2, 0) / (1, 2, 1, 0) = (6, 5, 2, 0 because nobody has it); under the new masks (6, 0, 2, 0), (0, 5, 0, 0)
    node 0: gradient (-2, 0, -8, -6), weights (7, 0, 6, 0); the 6 goes, and comes back with -8: mask 1010
    node 1: gradient (-2, -7, 0, -16), weights (0, 8.5, 0, 8); the 8 goes, and comes back with -16: mask 0101
    mean (3.5, 4.25, 3, 4)
Had the weights been masked anew before they were shared, and divided by the new masks:
    (6, 8, 0, 0) / (1, 1, 1, 1); under the new masks (6, 0, 0, 0), (0, 8, 0, 0)
    node 0: (7, 0, 5, 0), node 1: (0, 10, 0, 8), the same masks again, mean (3.5, 5, 2.5, 4)
"""

from __future__ import annotations

import pytest
import torch
from second_dispfl import SparsePeers, densities

CENTRES = torch.tensor([[8, 0, 10, 6], [2, 12, 0, 16]], dtype=torch.float64)
PARAMS = {"density": 0.5, "anneal": 0.5, "regrow": "gradient", "masks": "different"}


class TwoNodes(SparsePeers):
    """The problem above in place of a model and images."""

    def __init__(self):
        self.spec = {
            "seed": 1,
            "topology": {"graph": "full"},
            "sampling": {"scheme": "all"},
            "learning_rate": 0.5,
            "learning_rate_decay": 1.0,
            "weight_decay": 0.0,
            "clip_norm": None,
        }
        self.m, self.w, self.shapes = 2, torch.full((4,), 4.0, dtype=torch.float64), [(2, 2)]

    def first_masks(self, p):
        super().first_masks(p)
        return {0: vector(1, 1, 0, 0), 1: vector(0, 1, 1, 0)}

    def batches(self, client, round_):
        return [client]

    def gradient(self, w, index):
        return w - CENTRES[index]


class MaskedAnew(TwoNodes):
    """The misreading: what is shared wears the new mask already."""

    def next_mask(self, p, i, t, rounds, gradient):
        mask = super().next_mask(p, i, t, rounds, gradient)
        self.x_i[i], self.worn[i] = self.x_i[i] * mask, mask.clone()
        return mask


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rows(of: dict[int, torch.Tensor]) -> list[list[float]]:
    return [of[i].tolist() for i in range(2)]


def test_a_round_leaves_weights_as_trained_and_the_next_mask_beside_them():
    nodes = TwoNodes()
    mean = nodes.run("dispfl", PARAMS, 1)
    assert rows(nodes.x_i) == [[6, 2, 0, 0], [0, 8, 2, 0]]
    assert rows(nodes.worn) == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert rows(nodes.own) == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert mean.tolist() == [3, 5, 1, 0]


def test_two_rounds():
    nodes = TwoNodes()
    assert nodes.run("dispfl", PARAMS, 2).tolist() == [3.5, 4.25, 3, 4]
    assert rows(nodes.x_i) == [[7, 0, 6, 0], [0, 8.5, 0, 8]]
    assert rows(nodes.worn) == rows(nodes.own) == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_the_misreading_gives_other_numbers():
    assert MaskedAnew().run("dispfl", PARAMS, 2).tolist() == [3.5, 5, 2.5, 4]


def test_average_is_over_masks_worn_in_training():
    """All nodes at once; a node alone only drops what left its mask; who has not trained shares what it averaged."""
    nodes = TwoNodes()
    nodes.run("dispfl", PARAMS, 1)
    nodes.average({0: [0], 1: [0, 1]})
    assert rows(nodes.x_i) == [[6, 0, 0, 0], [0, 5, 0, 0]]
    nodes = TwoNodes()
    nodes.run("dispfl", PARAMS, 1)
    for _ in range(2):
        nodes.average({0: [0, 1], 1: [0, 1]})
        assert rows(nodes.x_i) == [[6, 0, 2, 0], [0, 5, 0, 0]]


def test_the_clip_sees_what_the_mask_leaves_out():
    """Round 0, node 0: the gradient (-4, 4, -10, -6) has norm sqrt(168); clipped to half: steps 1 and -1."""
    nodes = TwoNodes()
    nodes.spec["clip_norm"] = 168**0.5 / 2
    nodes.run("dispfl", PARAMS, 1)
    assert nodes.x_i[0].tolist() == pytest.approx([5, 3, 0, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (0.5, [15 / 18 * 10 / 24, 1, 15 / 18 * 8 / 12]),  # of 42 weights 21, less 6: 15 = factor (10 + 8)
        (0.8, [15.6 / 24, 1, 1]),  # 33.6 - 6 = 27.6, factor 27.6 / 18, and 8/12 of that exceeds 1: 33.6 - 6 - 12 = 15.6
        (1.0, [1, 1, 1]),
    ],
)
def test_densities(density, expected):
    """Tensors (4, 6), (6,) and (6, 2): of sizes 24, 6 and 12, with sums of their shapes 10, 6 and 8."""
    assert densities([(4, 6), (6,), (6, 2)], density) == pytest.approx(expected, abs=1e-12)
