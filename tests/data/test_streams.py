"""Random streams: the same for the same key, different for any other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flatfed.data.streams import PURPOSES, stream, torch_seed


def test_same_key_same_numbers():
    assert np.array_equal(stream(1, "batches", 3, 4).random(5), stream(1, "batches", 3, 4).random(5))
    assert torch_seed(1, "weights") == torch_seed(1, "weights")


def test_every_key_has_numbers_of_its_own():
    keys = [
        (s, p, r, c) for s, p, r, c in itertools.product((0, 1, 2), ("batches", "augmentation"), range(4), range(4))
    ]
    first = {float(stream(s, p, r, c).random()) for s, p, r, c in keys}
    assert len(first) == len(keys)


def test_purposes_have_distinct_numbers():
    assert len(set(PURPOSES.values())) == len(PURPOSES)


def test_keys_outside_one_word_are_refused():
    with pytest.raises(ValueError, match="seed and key"):
        stream(1 << 32, "weights")
    with pytest.raises(ValueError, match="seed and key"):
        stream(1, "sampling", -1)
