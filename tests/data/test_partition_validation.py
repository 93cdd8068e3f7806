"""The validation part that choices are made on: taken from the training images, apart from them and from the test's."""

from __future__ import annotations

import numpy as np
import pytest

from flatfed.data.partition import Partition, hold_out
from flatfed.errors import DataError

LABELS = np.arange(300) % 10


def dealt(parts: list) -> Partition:
    """Return a partition of images 0 to 199, of which 200 to 299 are the test images."""
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    drawn = [np.arange(200, 200 + len(part)) for part in parts]
    return Partition(np.concatenate(parts), offsets, np.arange(200, 300), counts, {}, "digest", drawn)


def members(partition: Partition) -> list:
    return np.split(partition.indices, partition.offsets[1:-1])


def test_every_client_gives_up_its_share_and_keeps_the_rest_in_order():
    order = np.random.default_rng(0).permutation(200)
    parts = np.split(order, [9, 30, 130])
    found = hold_out(dealt(parts), LABELS, 0.1, seed=1)
    lost = [len(before) - len(after) for before, after in zip(parts, members(found), strict=True)]
    assert lost == [0, 2, 10, 7]
    for before, after in zip(parts, members(found), strict=True):
        assert after.tolist() == [image for image in before if image not in found.validation]
    assert sorted([*found.indices, *found.validation]) == list(range(200))
    counts = [np.bincount(LABELS[part], minlength=10).tolist() for part in members(found)]
    assert found.class_counts.tolist() == counts


def test_the_test_images_are_not_there():
    found = hold_out(dealt(np.split(np.arange(200), 4)), LABELS, 0.25, seed=1)
    assert not len(found.test) and found.client_test is None
    assert max(found.indices.max(), found.validation.max()) < 200


def test_a_share_is_what_it_says_in_decimals():
    found = hold_out(dealt([np.arange(100)]), LABELS, 0.29, seed=1)
    assert len(found.validation) == 29, "0.29 * 100 is 28.999999999999996"


def test_drawn_by_the_seed_and_for_each_client_by_itself():
    parts = np.split(np.arange(200), 4)
    one, again, other = (hold_out(dealt(parts), LABELS, 0.2, seed).validation for seed in (1, 1, 2))
    assert one.tolist() == again.tolist() != other.tolist()
    fewer = hold_out(dealt(parts[:2]), LABELS, 0.2, seed=1).validation
    assert fewer.tolist() == [image for image in one if image < 100]
    places = [tuple(one[one // 50 == client] % 50) for client in range(4)]
    assert len(set(places)) == 4


def test_an_image_of_several_clients_is_held_out_of_all():
    """Dealt with replacement, as in FedSMOO's official code: clients share images, and have some twice."""
    rng = np.random.default_rng(3)
    found = hold_out(dealt([rng.integers(0, 60, 50) for _ in range(6)]), LABELS, 0.2, seed=1)
    assert not set(found.indices) & set(found.validation)
    assert len(found.validation) == len(set(found.validation)) > 0


def test_each_clients_part_is_what_was_its_own_of_all_that_is_held_out():
    found = hold_out(dealt([np.arange(20), np.arange(10, 30), np.array([40, 41, 41])]), LABELS, 0.25, seed=1)
    one, two, three = map(set, found.client_validation)
    held = set(found.validation)
    assert one == held & set(range(20)) and two == held & set(range(10, 30)) and not three
    assert one & two, "what one gave up of the images that both had is validated on for both"
    assert one | two == held


def test_what_leaves_nothing_is_refused():
    with pytest.raises(DataError, match=r"share of 0\.01 holds out no image; clients have at most 50"):
        hold_out(dealt(np.split(np.arange(200), 4)), LABELS, 0.01, seed=1)
    with pytest.raises(DataError, match=r"share of 0\.9 leaves client 1 none of its 2 images"):
        hold_out(dealt([np.arange(20), np.array([3, 3])]), LABELS, 0.9, seed=1)
