"""The plan of a round: the official schedule of clients exactly, the properties of FlatFed's own, and the images."""

import numpy as np
import pytest

from flatfed.engine.batches import Schedule, active_clients, longest_first, most_participants, plan
from flatfed.runs.run_config import SamplingSettings

DATA = [np.arange(0, 7), np.arange(10, 22), np.arange(30, 35)]
SIZES = np.array([7, 12, 5])


def make(clients, **changes):
    values = {"schedule": Schedule(4, 3), "seed": 1, "round_": 2, "augmentation": "crop_flip_half"}
    return plan(np.array(clients), DATA, **{**values, **changes})


def batches(dealt, row=0):
    """Return the image indices of each batch of a row."""
    return [dealt.index[row, k][dealt.weight[row, k] > 0] for k in range(dealt.steps[row])]


def test_step_counts_take_the_last_small_batch():
    assert [Schedule(4, 3).count(n) for n in (7, 12, 5, 4, 1)] == [6, 9, 6, 3, 3]
    assert (Schedule(20, 2).count(250), Schedule(20, 2).nominal(250)) == (26, 25.0)
    assert (Schedule(4, 3, steps=5).count(7), Schedule(4, 3, steps=5).nominal(7)) == (5, 5.0)


def test_every_epoch_sees_every_image_once_in_batches_of_weight_1():
    order = longest_first(np.arange(3), SIZES, Schedule(4, 3))
    dealt = make(order)
    assert order.tolist() == [1, 0, 2] and dealt.steps.tolist() == [9, 6, 6] and dealt.length == 9
    assert [dealt.rows(k) for k in (0, 5, 6, 8)] == [3, 3, 1, 1]
    for row, client in enumerate(order):
        per_epoch = dealt.steps[row] // 3
        for first in range(0, dealt.steps[row], per_epoch):
            seen = np.concatenate(batches(dealt, row)[first : first + per_epoch])
            assert sorted(seen.tolist()) == DATA[client].tolist()
        sums = dealt.weight[row].sum(axis=1)
        assert np.allclose(sums[: dealt.steps[row]], 1) and not sums[dealt.steps[row] :].any()
    assert dealt.width[:6].max() == 4 and make([0]).width.tolist() == [4, 3] * 3


def test_a_clients_plan_depends_on_its_round_and_not_on_its_neighbours():
    together, alone = make([1, 0, 2]), make([0])
    assert np.array_equal(together.index[1, :6], alone.index[0])
    assert np.array_equal(together.draws[1, :6], alone.draws[0])
    assert not np.array_equal(alone.index, make([0], round_=3).index)
    assert make([0], augmentation="none").draws is None


def test_with_steps_given_epochs_go_on_from_round_to_round():
    """Twelve images in batches of five are three batches an epoch: three rounds of two steps make two epochs."""
    rounds = [make([1], schedule=Schedule(5, 1, steps=2), round_=t) for t in range(6)]
    seen = [batch for dealt in rounds for batch in batches(dealt)]
    assert [len(batch) for batch in seen] == [5, 5, 2] * 4
    for epoch in range(4):
        assert sorted(np.concatenate(seen[3 * epoch : 3 * epoch + 3]).tolist()) == DATA[1].tolist()
    assert not np.array_equal(seen[0], seen[3])
    long = make([1], schedule=Schedule(5, 1, steps=12), round_=0)
    assert np.array_equal(np.concatenate(seen), np.concatenate(batches(long)))


def rounds(count, clients, seed, **settings):
    return [active_clients(SamplingSettings(**settings), clients, seed, t).tolist() for t in range(count)]


def test_bernoulli_has_the_right_mean_and_is_never_empty():
    counts = [len(clients) for clients in rounds(2000, 100, 1, scheme="bernoulli", fraction=0.1)]
    assert abs(np.mean(counts) - 10) < 4 * 3 / np.sqrt(2000)
    assert min(len(clients) for clients in rounds(300, 5, 1, scheme="bernoulli", fraction=0.02)) == 1


def test_fixed_has_the_right_number_without_repeats_and_varies():
    drawn = rounds(50, 100, 1, scheme="fixed", fraction=0.1)
    assert all(len(set(clients)) == 10 for clients in drawn) and len(set(map(tuple, drawn))) > 45
    assert drawn == rounds(50, 100, 1, scheme="fixed", fraction=0.1)


@pytest.mark.parametrize("scheme", ["all", "bernoulli", "fixed"])
def test_most_participants(scheme):
    settings = {"scheme": scheme, "fraction": 0.3}
    for count in (1, 2, 40):
        most = max(len(clients) for clients in rounds(count, 12, 7, **settings))
        assert most_participants(SamplingSettings(**settings), 12, 7, count) == most
        assert scheme != "all" or most == 12
