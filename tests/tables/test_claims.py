"""What the seeds of a whole table can tell: published claims pooled over columns, marks of best and second, and p."""

from __future__ import annotations

import doctest
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import permutation_test

from flatfed.tables import claims
from made import cell
from made import rounds_cell as rounds
from repository import ROOT
from samples import full

EXACT = {"metric": "stored_memory", "unit": "ratio", "n": None}
SIX = np.array([0.5, 0.7, 0.6, 0.55, 0.65, 0.58])


def of(values, *paper, **changes):
    """A cell of seeds with these values, and what the paper prints."""
    return cell(list(map(float, values)), *paper, **changes)


def answer(column_of_a, column_of_b):
    """Return what "a beats b" comes to over columns that print it; each is a pair of cells."""
    found = claims.results([{"a": a, "b": b} for a, b in zip(column_of_a, column_of_b, strict=True)])
    return next(result for result in found if (result.better, result.worse) == ("a", "b"))


def test_claims_are_printed_leads_of_more_than_a_point():
    column = {"a": cell([0.5], 0.80, 0.03), "b": cell([0.5], 0.788), "c": cell([0.5], 0.780), "none": cell([0.5])}
    assert set(claims.claimed(column)) == {("a", "b"), ("a", "c")}, "b leads c by less than a point"
    late = {"a": rounds([1], 700), "b": rounds([1], None, "not reached")}
    assert claims.claimed(late) == [("a", "b")]


def test_a_claim_over_two_columns_by_hand():
    """Six seeds lead by 0.01 in one column and 0.03 in the other: 2 of 2^6 patterns are as extreme as 0.02."""
    one, two = (of(SIX + 0.01, 0.9), of(SIX, 0.8)), (of(SIX + 0.03, 0.7), of(SIX, 0.6))
    found = answer(*zip(one, two, strict=True))
    assert (found.outcome, found.columns, found.p) == ("held clearly", 2, 2 / 64)
    turned = answer(*zip((of(SIX, 0.9), of(SIX + 0.01, 0.8)), (of(SIX, 0.7), of(SIX + 0.03, 0.6)), strict=True))
    assert turned.outcome == "reversed clearly"


def test_a_claim_counts_only_where_it_is_printed():
    """In the second column the paper has b ahead: a claim of its own, over that column alone."""
    columns = [{"a": of(SIX + 0.1, 0.9), "b": of(SIX, 0.8)}, {"a": of(SIX + 0.1, 0.7), "b": of(SIX, 0.8)}]
    found = {(each.better, each.worse): each for each in claims.results(columns)}
    assert found["a", "b"].columns == found["b", "a"].columns == 1
    assert (found["a", "b"].outcome, found["b", "a"].outcome) == ("held", "not held"), "of two claims, 4/64 is no news"
    assert found["a", "b"].p == found["b", "a"].p == 4 / 64


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (cell([0.6, 0.5], 0.9), cell([0.5, 0.55], 0.8), "held"),
        (cell([0.5, 0.55], 0.9), cell([0.6, 0.5], 0.8), "not held"),
        # Five seeds can tell nothing.
        (cell([0.51, 0.71, 0.61, 0.5, 0.5], 0.9), cell([0.5, 0.7, 0.6, 0.49, 0.49], 0.8), "held"),
        (cell([0.5, 0.5], 0.9), cell([0.5, 0.5], 0.8), "not held"),
        (rounds([100] * 6, 700), rounds([None] * 6, 800), "held clearly"),
        (rounds([100, None], 700), rounds([None, None], 800), "held"),
        (rounds([None] * 6, 700), rounds([100] * 6, 800), "reversed clearly"),
        (cell([1.0], 1.0, **EXACT), cell([2.0], 2.0, **EXACT), "held clearly"),
        (cell([2.0], 1.0, **EXACT), cell([1.0], 2.0, **EXACT), "reversed clearly"),
        (cell([0.5], 0.9, status="missing"), cell([0.5], 0.8), "untested"),
        (cell([0.5, 0.5], 0.9), cell([0.5], 0.8), "untested"),
        (cell([0.5, 0.5], 0.9), cell([0.5, 0.4], 0.8, seeds=[1, 3]), "untested"),
    ],
)
def test_few_seeds_targets_not_reached_and_cells_that_do_not_pair(a, b, expected):
    assert answer([a], [b]).outcome == expected


def test_where_a_target_is_not_reached_the_order_alone_is_pooled():
    """Reached by all seeds in one column, by one row alone in the other: +1 everywhere, whatever the rounds."""
    reached = rounds([100] * 6, 700), rounds([900] * 6, 800)
    late = rounds([100] * 6, 700), rounds([None] * 6, 800)
    found = answer(*zip(reached, late, strict=True))
    assert (found.outcome, found.p) == ("held clearly", 2 / 64)


def test_seconds_are_measured_once_so_that_seeds_bear_no_lead_out():
    """The same lead in all seeds says something of rounds, nothing of a clock that was read once for all."""
    for metric, expected in (("rounds_to_target", "held clearly"), ("total_seconds", "held")):
        column = {"a": rounds([40] * 6, 50, metric=metric), "b": rounds([50] * 6, 60, metric=metric)}
        (found,) = claims.results([column])
        assert found.outcome == expected and (found.p is None) == (metric == "total_seconds")
        assert claims.marks([column]) == [{"a": "best"} if metric == "rounds_to_target" else {}]


def test_of_many_claims_each_has_to_be_stronger():
    """Six rows, each 0.01 ahead of the next: 15 claims of which none can be told by eight seeds, all by ten."""
    for seeds, expected in ((8, "held"), (10, "held clearly")):
        level = np.linspace(0.5, 0.6, seeds)
        column = {f"r{place}": of(level - 0.01 * place, 0.9 - 0.05 * place) for place in range(6)}
        found = claims.results([column])
        assert len(found) == 15 and {each.outcome for each in found} == {expected}, seeds
        assert {each.p for each in found} == {15 * 2.0 ** (1 - seeds)}


def test_marks_need_a_lead_that_the_seeds_bear_out():
    """Paired differences of a and b are 0.01 in each seed although the seeds are 0.2 apart; c is level with b."""
    seven = np.array([*SIX, 0.62])
    a, b, d = of(seven), of(seven - 0.01), of(seven - 0.1)
    c = of(seven - 0.01 + np.array([0.02, -0.02, 0.0, 0.02, -0.01, -0.01, 0.005]))
    assert claims.marks([{"a": a, "b": b, "d": d, "c": of(seven - 0.1)}]) == [{"a": "best", "b": "second"}]
    assert claims.marks([{"a": a, "b": b, "d": d}]) == [{"a": "best", "b": "second"}]
    assert claims.marks([{"b": b, "c": c, "d": d}]) == [{}], "no second without a best"
    other = replace(b, seeds=[1, 2, 3, 4, 5, 6, 8])
    assert claims.marks([{"a": a, "b": other}]) == [{}], "other seeds are not paired"
    pair = {"a": of(SIX), "b": of(SIX - 0.01)}
    assert claims.marks([pair]) == [{"a": "best"}]
    assert claims.marks([pair, pair]) == [{}, {}], "of two columns, 2/64 is no news"
    ten = np.linspace(0.5, 0.7, 10)
    twice = {"a": of(ten), "b": of(ten - 0.01), "d": of(ten - 0.1)}
    assert claims.marks([twice, twice, {}]) == [{"a": "best", "b": "second"}] * 2 + [{}]
    noisy = of(ten - 0.001 * np.array([9, -8] * 5), 0.5)
    far = of(ten - 0.05 - 0.3 * np.array([1, -1] * 5))
    for row in (noisy, far):
        assert claims.marks([{**twice, "noisy": row}])[0].get("a") is None, "ahead of b clearly, of a noisy row not"


def test_fewer_rounds_are_better_and_a_speedup_turns_that_around():
    few, many = rounds([10, 12, 14, 10, 12, 14]), rounds([100, 102, 104, 100, 102, 104])
    assert claims.marks([{"a": many, "b": few}]) == [{"b": "best"}]
    fast, slow = (replace(each, relative="speedup") for each in (many, few))
    assert claims.marks([{"a": fast, "b": slow}]) == [{"a": "best"}]


def test_no_table_without_a_difference_has_a_false_claim_more_often_than_six_in_a_hundred():
    """2,000 tables of five rows in four columns that go together, ten seeds, and what a paper claims: all in order."""
    random, rows = np.random.default_rng(4), "abcde"
    printed = {row: 0.9 - 0.05 * place for place, row in enumerate(rows)}
    claimed = marked = 0
    for _ in range(2000):
        values = 0.6 + random.normal(0, 0.01, (5, 1, 10)) + random.normal(0, 0.01, (5, 4, 10))
        columns = [{row: of(values[i, j], printed[row]) for i, row in enumerate(rows)} for j in range(4)]
        claimed += any(each.outcome.endswith("clearly") for each in claims.results(columns))
        marked += any(claims.marks(columns))
    assert claimed / 2000 <= 0.06 and marked / 2000 <= 0.06
    assert claimed > 10, "the test is not blind"


def test_examples_in_the_docstrings():
    found = doctest.testmod(claims)
    assert found.attempted >= 2 and not found.failed


@pytest.mark.parametrize("seeds", [2, 5, 6, 9])
@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
def test_sign_flips_are_those_of_scipy(seeds, shift):
    drawn = np.random.default_rng(seeds).normal(shift, 1.0, (5, seeds))
    for values in drawn:
        theirs = permutation_test(
            (values,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
        )
        assert claims.sign_flip(values) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_by_hand():
    assert claims.sign_flip([1.0, 2.0, 3.0]) == 2 / 8, "as found, and all turned round"
    assert claims.sign_flip([1.0, 2.0, -3.0]) == 1.0, "the sum is 0: every pattern is as extreme"
    assert claims.sign_flip([0.0] * 4) == 1.0
    assert claims.sign_flip([0.1 + 0.2, 0.3]) == claims.sign_flip([0.3, 0.3]) == 0.5, "ties of rounding"
    with pytest.raises(ValueError, match="not finite"):
        claims.sign_flip([math.nan, 1.0])


def test_of_many_seeds_patterns_are_drawn_and_the_answer_is_the_same_every_time():
    values = np.random.default_rng(3).normal(0.5, 1.0, 24)
    p = claims.sign_flip(values)
    theirs = permutation_test(
        (values,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=200_000, vectorized=True, rng=1
    )
    assert p == claims.sign_flip(values) == pytest.approx(theirs.pvalue, abs=0.003)
    assert claims.sign_flip([1.0] * 40) == 2.0**-claims.MOST, "what was found is among the patterns"


def test_holms_correction_and_the_least_number_of_seeds_by_hand():
    assert claims.holm([0.04, 0.01]) == [0.04, 0.02]
    assert claims.holm([0.2, 0.3, 0.01]) == pytest.approx([0.4, 0.4, 0.03])
    least = claims.least_seeds()
    assert claims.sign_flip([1.0] * least) <= claims.LEVEL < claims.sign_flip([1.0] * (least - 1))


def power(seeds: int, size: float, tests: int) -> float:
    """Return the share of simulated tables that find a difference of ``size`` deviations, one of ``tests`` by Holm."""
    tables = np.random.default_rng(7).normal(size, 1.0, (2000, seeds))
    found = np.apply_along_axis(claims.sign_flip, -1, tables)
    return float((found <= claims.LEVEL / tests * (1 + 1e-12)).mean())


@full
def test_the_seeds_that_the_docs_name_are_enough_and_one_fewer_is_not():
    """The rows of the table in docs/running.md, as far as all patterns of signs are counted."""
    text = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (0\.\d) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    checked = 0
    for spread, *seeds in rows:
        for number, tests in zip(map(int, seeds), (1, 8, 28), strict=True):
            if number <= claims.MOST:
                size, checked = 0.5 / float(spread), checked + 1
                assert power(number, size, tests) >= 0.8 > power(number - 1, size, tests)
    assert checked == 10
