"""Paired tests over seeds: against scipy's, against counts by hand, and for what they promise on tables of chance."""

from __future__ import annotations

import doctest
import math
import re

import numpy as np
import pytest
from scipy.stats import permutation_test

from flatfed.tables import significance
from power import power
from repository import ROOT
from samples import full


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


def test_by_hand():
    assert significance.sign_flip([1.0, 2.0, 3.0]) == 2 / 8, "as found, and all turned round"
    assert significance.sign_flip([1.0, 2.0, -3.0]) == 1.0, "the sum is 0: every pattern is as extreme"
    assert significance.sign_flip([0.0] * 4) == 1.0
    assert significance.sign_flip([0.1 + 0.2, 0.3]) == significance.sign_flip([0.3, 0.3]) == 0.5, "ties of rounding"
    with pytest.raises(ValueError, match="not finite"):
        significance.sign_flip([math.nan, 1.0])


def test_of_many_seeds_patterns_are_drawn_and_the_answer_is_the_same_every_time():
    values = np.random.default_rng(3).normal(0.5, 1.0, 24)
    p = significance.sign_flip(values)
    theirs = permutation_test(
        (values,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=200_000, vectorized=True, rng=1
    )
    assert p == significance.sign_flip(values) == pytest.approx(theirs.pvalue, abs=0.003)
    assert significance.sign_flip([1.0] * 40) == 2.0**-significance.MOST, "what was found is among the patterns"


def test_holms_correction_and_the_least_number_of_seeds_by_hand():
    assert significance.holm([0.04, 0.01]) == [0.04, 0.02]
    assert significance.holm([0.2, 0.3, 0.01]) == pytest.approx([0.4, 0.4, 0.03])
    least = significance.least_seeds()
    assert significance.sign_flip([1.0] * least) <= significance.LEVEL < significance.sign_flip([1.0] * (least - 1))



@full
def test_the_seeds_that_the_docs_name_are_enough_and_one_fewer_is_not():
    """The rows of the table in docs/running.md, as far as all patterns of signs are counted."""
    text = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (0\.\d) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    checked = 0
    for spread, *seeds in rows:
        for number, tests in zip(map(int, seeds), (1, 8, 28), strict=True):
            if number <= significance.MOST:
                size, checked = 0.5 / float(spread), checked + 1
                assert power(number, size, tests) >= 0.8 > power(number - 1, size, tests)
    assert checked == 10
