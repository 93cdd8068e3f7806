"""Paired tests over seeds: against scipy's, against counts by hand, and for what they promise on tables of chance."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from scipy.stats import permutation_test

from flatfed.papers import significance


def test_examples_in_the_docstrings():
    found = doctest.testmod(significance)
    assert found.attempted >= 2 and not found.failed


@pytest.mark.parametrize("seeds", [2, 5, 6, 9])
@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
def test_sign_flips_are_those_of_scipy(seeds, shift):
    drawn = np.random.default_rng(seeds).normal(shift, 1.0, (5, seeds))
    for values in drawn:
        theirs = permutation_test(
            (values,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
        )
        assert significance.sign_flip(values) == pytest.approx(theirs.pvalue, abs=1e-12)
    assert significance.sign_flip(drawn).shape == (5,)


def test_the_interval_of_a_mean_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, half width 4.3027 / sqrt(3) = 2.4842."""
    found = significance.interval([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == (
        2.0,
        pytest.approx(-0.4842, abs=1e-4),
        pytest.approx(4.4842, abs=1e-4),
    )
    assert significance.interval([1.0]) == significance.Interval(1.0, -math.inf, math.inf), "one seed knows no sign"
    assert significance.interval([0.5, 0.5]) == significance.Interval(0.5, 0.5, 0.5)


def test_by_hand():
    assert significance.sign_flip([1.0, 2.0, 3.0]) == 2 / 8, "as found, and all turned round"
    assert significance.sign_flip([1.0, 2.0, -3.0]) == 1.0, "the sum is 0: every pattern is as extreme"
    assert significance.sign_flip([0.0] * 4) == 1.0
    assert significance.sign_flip([0.1 + 0.2, 0.3]) == significance.sign_flip([0.3, 0.3]) == 0.5, "ties of rounding"


def test_of_many_seeds_patterns_are_drawn_and_the_answer_is_the_same_every_time():
    values = np.random.default_rng(3).normal(0.5, 1.0, 24)
    p = significance.sign_flip(values)
    theirs = permutation_test(
        (values,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=200_000, vectorized=True, rng=1
    )
    assert p == significance.sign_flip(values) == pytest.approx(theirs.pvalue, abs=0.003)
    assert significance.sign_flip([1.0] * 40) == 2.0**-significance.MOST, "what was found is among the patterns"


def test_what_is_no_number_has_no_p():
    with pytest.raises(ValueError, match="no finite numbers"):
        significance.sign_flip([math.nan, 1.0])


def test_power_with_many_tests_counts_enough_patterns():
    assert significance.power(20, 3.0, 500) == 1.0, "2^13 patterns could not tell one of five hundred"


def test_holm_by_hand():
    assert significance.holm([0.04, 0.01]) == [0.04, 0.02]
    assert significance.holm([0.2, 0.3, 0.01]) == pytest.approx([0.4, 0.4, 0.03])
    assert significance.holm([]) == []


def test_how_many_seeds_are_the_least():
    for tests in (1, 2, 5, 16, 25):
        least = significance.least_seeds(tests)
        assert significance.sign_flip([1.0] * least) * tests <= significance.LEVEL
        assert significance.sign_flip([1.0] * (least - 1)) * tests > significance.LEVEL


@pytest.mark.parametrize(("seeds", "tests"), [(6, 1), (8, 1), (10, 16), (12, 4)])
def test_power_where_only_the_most_extreme_pattern_counts_or_nearly(seeds, tests):
    """With few seeds a difference counts where all signs agree, which has a chance that can be written down."""
    all_agree = 0.5 * (1 + math.erf(1 / 2**0.5))
    found = significance.power(seeds, 1.0, tests)
    assert found >= all_agree**seeds - 0.03
    if 4 * 2.0**-seeds * tests > significance.LEVEL:
        assert found == pytest.approx(all_agree**seeds, abs=0.03)


def test_power_grows_with_seeds_and_size_and_falls_with_tests():
    assert significance.power(5, 10.0) == 0.0, "five seeds tell nothing"
    assert significance.power(6, 0.0) == pytest.approx(2 / 64, abs=0.012)
    assert significance.power(12, 1.0) > significance.power(8, 1.0) > significance.power(8, 0.5)
    assert significance.power(12, 1.0, 10) < significance.power(12, 1.0)


def test_seeds_for_a_power():
    needed = significance.seeds_for(1.0)
    assert significance.power(needed, 1.0) >= 0.8 > significance.power(needed - 1, 1.0)
    assert significance.seeds_for(0.05) is None
