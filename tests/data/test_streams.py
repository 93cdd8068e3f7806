"""Random streams: the same for the same key, different for any other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flatfed.data.streams import PURPOSES, stream, torch_seed


def test_equal_keys_have_equal_numbers_and_others_other_ones():
    assert np.array_equal(stream(1, "batches", 3, 4).random(5), stream(1, "batches", 3, 4).random(5))
    assert torch_seed(1, "dropout", 3) == torch_seed(1, "dropout", 3) != torch_seed(1, "dropout", 4)
    keys = list(itertools.product((0, 1, 2), ("batches", "augmentation"), range(4), range(4)))
    assert len({float(stream(*key).random()) for key in keys}) == len(keys)
    assert len(set(PURPOSES.values())) == len(PURPOSES)


@pytest.mark.parametrize("key", [(1 << 32, "weights"), (1, "sampling", -1)])
def test_keys_outside_one_word_are_refused(key):
    with pytest.raises(ValueError, match="seed and key"):
        stream(*key)
