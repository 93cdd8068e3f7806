"""Client sampling: the official schedule exactly, and the properties of FlatFed's own."""

import numpy as np
import pytest

from flatfed.engine.sampling import active_clients, most_participants
from flatfed.runs.run_config import SamplingSettings


def rounds(count, clients, seed, **settings):
    return [active_clients(SamplingSettings(**settings), clients, seed, t).tolist() for t in range(count)]


def test_the_official_schedule_of_seed_20():
    official = {"scheme": "bernoulli", "sampler": "official"}
    tenth = rounds(800, 100, 20, fraction=0.1, **official)
    assert tenth[0] == [4, 15, 33, 61, 69, 80, 92]
    counts = [len(clients) for clients in tenth]
    assert (round(float(np.mean(counts)), 2), min(counts), max(counts)) == (10.02, 2, 22)
    assert rounds(1, 200, 20, fraction=0.05, **official) == [[4, 15, 61, 80, 92, 121, 139, 194]]
    assert len(rounds(1, 100, 20, fraction=0.2, **official)[0]) == 17


def test_bernoulli_has_the_right_mean_and_is_never_empty():
    counts = [len(clients) for clients in rounds(2000, 100, 1, scheme="bernoulli", fraction=0.1)]
    assert abs(np.mean(counts) - 10) < 4 * 3 / np.sqrt(2000)
    assert min(len(clients) for clients in rounds(300, 5, 1, scheme="bernoulli", fraction=0.02)) == 1


def test_fixed_has_the_right_number_without_repeats_and_varies():
    drawn = rounds(50, 100, 1, scheme="fixed", fraction=0.1)
    assert all(len(set(clients)) == 10 for clients in drawn) and len(set(map(tuple, drawn))) > 45
    assert drawn == rounds(50, 100, 1, scheme="fixed", fraction=0.1)


@pytest.mark.parametrize("scheme", ["all", "bernoulli", "fixed"])
@pytest.mark.parametrize("sampler", ["keyed", "official"])
def test_most_participants(scheme, sampler):
    settings = {"scheme": scheme, "sampler": sampler, "fraction": 0.3}
    for count in (1, 2, 40):
        most = max(len(clients) for clients in rounds(count, 12, 7, **settings))
        assert most_participants(SamplingSettings(**settings), 12, 7, count) == most
        assert scheme != "all" or most == 12
