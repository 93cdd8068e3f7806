"""Client sampling: the official schedule exactly, and what our own must satisfy."""

from __future__ import annotations

import numpy as np
import pytest

from flatfed.engine.sampling import active_clients, most_participants
from flatfed.runs.run_config import SamplingSettings

OFFICIAL = {"scheme": "bernoulli", "sampler": "official"}


@pytest.mark.parametrize(
    ("clients", "fraction", "expected"),
    [
        (100, 0.1, [4, 15, 33, 61, 69, 80, 92]),
        (200, 0.05, [4, 15, 61, 80, 92, 121, 139, 194]),
    ],
)
def test_official_schedule_of_round_0_and_seed_20(clients, fraction, expected):
    assert active_clients(SamplingSettings(**{**OFFICIAL, "fraction": fraction}), clients, 20, 0).tolist() == expected


def test_official_schedule_statistics_over_800_rounds():
    counts = [len(active_clients(SamplingSettings(**{**OFFICIAL, "fraction": 0.1}), 100, 20, t)) for t in range(800)]
    assert (round(float(np.mean(counts)), 2), min(counts), max(counts)) == (10.02, 2, 22)
    assert len(active_clients(SamplingSettings(**{**OFFICIAL, "fraction": 0.2}), 100, 20, 0)) == 17


def test_bernoulli_has_the_right_mean_and_is_never_empty():
    spec = {"scheme": "bernoulli", "fraction": 0.1}
    counts = [len(active_clients(SamplingSettings(**spec), 100, 1, t)) for t in range(2000)]
    assert abs(np.mean(counts) - 10) < 4 * 3 / np.sqrt(2000)
    rare = [
        len(active_clients(SamplingSettings(**{"scheme": "bernoulli", "fraction": 0.02}), 5, 1, t)) for t in range(300)
    ]
    assert min(rare) == 1


def test_fixed_has_the_right_number_without_repeats_and_varies():
    spec = {"scheme": "fixed", "fraction": 0.1}
    rounds = [active_clients(SamplingSettings(**spec), 100, 1, t) for t in range(50)]
    assert all(len(set(r.tolist())) == 10 for r in rounds)
    assert len({tuple(r) for r in rounds}) > 45
    assert np.array_equal(rounds[7], active_clients(SamplingSettings(**spec), 100, 1, 7))


def test_all_takes_everybody():
    assert active_clients(SamplingSettings(**{"scheme": "all"}), 4, 1, 0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("scheme", ["all", "bernoulli", "fixed"])
@pytest.mark.parametrize("sampler", ["keyed", "official"])
def test_most_participants(scheme, sampler):
    spec = {"scheme": scheme, "sampler": sampler, "fraction": 0.3}
    for rounds in (1, 2, 40):
        counts = [len(active_clients(SamplingSettings(**spec), 12, 7, round_)) for round_ in range(rounds)]
        assert most_participants(SamplingSettings(**spec), 12, 7, rounds) == max(counts)
