"""Student's t: tabulated quantiles, and the interval around a sum of estimates by hand."""

from __future__ import annotations

import math

import pytest

from flatfed.student import half_width, student


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
)
def test_quantiles_are_the_tabulated_ones(freedom, quantile):
    assert student(freedom) == pytest.approx(quantile, abs=5e-5)


def test_one_estimate_has_its_own_degrees_of_freedom():
    assert half_width([(2.0, 9)]) == half_width([(2.0, 9), (0.0, 3)]) == half_width([(2.0, 9), (0.0, 0)])
    assert half_width([(2.0, 9)]) == pytest.approx(2 * 2.2622, abs=1e-4)


def test_two_estimates_have_those_of_welch_and_satterthwaite():
    """Errors 3 and 4 of 2 and 8 degrees: (9 + 16)^2 / (81 / 2 + 256 / 8) is 8.6, rounded down 8, of quantile 2.3060."""
    assert half_width([(3.0, 2), (4.0, 8)]) == pytest.approx(5 * 2.3060, abs=5e-4)
    assert half_width([(1.0, 5), (1.0, 5)]) == pytest.approx(math.sqrt(2) * 2.2281, abs=1e-4), "ten degrees, exactly"


def test_no_error_and_an_infinite_one():
    assert half_width([(0.0, 7), (0.0, 3)]) == 0
    assert half_width([(math.inf, 0), (1.0, 3)]) == math.inf
