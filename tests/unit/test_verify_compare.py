"""Ours against the paper's: intervals, marks, tolerances, claims, ranks, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flatfed.specs.cell import Cell
from flatfed.tables import compare


def cell(values, paper=None, spread=None, note="", **changes):
    """A cell of test accuracies by seed; ``paper`` as a fraction."""
    there = [value for value in values if value is not None]
    value = sum(there) / len(there) if len(there) == len(values) else None
    own = (
        math.sqrt(sum((v - value) ** 2 for v in there) / (len(there) - 1))
        if value is not None and len(there) > 1
        else None
    )
    found = {
        "table": "t", "column": "c", "row": "r", "runs": [], "target": None, "reached": None,
        "metric": "test_accuracy", "unit": "fraction", "printed_unit": "percent", "relative": None, "scale": "paper",
        "status": "ok" if value is not None else "not_reached", "value": value, "values": values, "n": len(values),
        "spread": own, "seeds": list(range(1, len(values) + 1)), "paper_value": paper, "paper_spread": spread,
        "paper_decimals": None, "paper_note": note, "compare": "values",
        "difference": None if value is None or paper is None else value - paper,
    }  # fmt: skip
    return Cell(**{**found, **changes})


def rounds(values, paper=None, note="", **changes):
    unit = {"metric": "rounds_to_target", "unit": "rounds", "printed_unit": "rounds"}
    return cell(values, paper, note=note, **{**unit, **changes})


def test_the_paired_interval_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, half width 4.3027 / sqrt(3) = 2.4842."""
    gap = compare.paired([2, 4, 6], [1, 2, 3])
    assert (gap.mean, gap.low) == (2, pytest.approx(2 - 2.4842, abs=1e-4)) and not gap.excludes_zero
    assert compare.paired([2.0, 4.0, 6.0], [1.0, 2.9, 5.1]).excludes_zero
    assert not compare.paired([1.0], [0.0]).excludes_zero, "one seed knows no sign"
    assert not compare.paired([1.0, 2.0], [1.0, 2.0]).excludes_zero


def test_marks_need_a_lead_that_the_seeds_bear_out():
    """Paired differences of a and b are 0.01 in each seed although the seeds are 0.2 apart; c is level with b."""
    a, b, c = [0.5, 0.7, 0.6], [0.49, 0.69, 0.59], [0.5, 0.67, 0.59]
    assert compare.marks({"c": cell(c), "a": cell(a), "b": cell(b)}) == {"a": "best"}
    assert compare.marks({"a": cell(a), "b": cell(b), "d": cell([0.1, 0.3, 0.2])}) == {"a": "best", "b": "second"}
    assert compare.marks({"a": cell(a[:1]), "b": cell(b[:1])}) == {}
    assert compare.marks({"b": cell(b), "c": cell(c), "d": cell([0.1, 0.3, 0.2])}) == {}, "no second without a best"
    assert compare.marks({"a": cell(a), "b": cell(b, seeds=[1, 2, 4])}) == {}, "other seeds are not paired"


def test_fewer_rounds_are_better_and_a_speedup_turns_that_around():
    few, many = rounds([10, 12, 14]), rounds([100, 102, 104])
    assert compare.marks({"a": many, "b": few}) == {"b": "best"}
    fast, slow = (replace(each, relative="speedup") for each in (many, few))
    assert compare.marks({"a": fast, "b": slow}) == {"a": "best"}
    facts = {row: cell([n, n], metric="classes") for row, n in (("a", 1.0), ("b", 2.0))}
    assert compare.marks(facts) == {}, "a number of classes is neither better nor worse"


@pytest.mark.parametrize(
    ("metric", "marks", "expected"),
    [("rounds_to_target", {"a": "best"}, "held clearly"), ("total_seconds", {}, "held")],
)
def test_seconds_are_measured_once_so_that_seeds_bear_no_lead_out(metric, marks, expected):
    """The same lead in both seeds says something of rounds, nothing of a clock that was read once for both."""
    column = {"a": rounds([40, 41], 50, metric=metric), "b": rounds([50, 51], 60, metric=metric)}
    assert compare.marks(column) == marks
    assert compare.claims(column) == [("a", "b")] and compare.outcome(column["a"], column["b"]) == expected


@pytest.mark.parametrize(
    ("ours", "paper", "spread", "note", "expected"),
    [
        ([0.80, 0.80], 0.809, None, "", "agrees"),  # 0.9 points
        ([0.80, 0.80], 0.811, None, "", "differs"),  # 1.1 points
        ([0.80, 0.80], 0.811, 0.006, "std_kind=repeats (n=2)", "agrees"),  # 2 x 0.6 = 1.2 points
        ([0.80, 0.80], 0.811, 0.006, "std_kind=unstated", "differs"),
        ([0.80, 0.80], 0.811, 0.04, "std_kind=clients", "differs"),
        ([0.79, 0.81], 0.819, None, "", "agrees"),  # deviation 1.414, 2 x 1.414 / sqrt(2) = 2 points
        ([0.79, 0.81], 0.8201, None, "", "differs"),
    ],
)
def test_tolerance_of_accuracies(ours, paper, spread, note, expected):
    assert compare.agreement(cell(ours, paper, spread, note)) == expected


def test_agreement_of_rounds_exact_numbers_and_targets_not_reached():
    assert compare.agreement(rounds([220, 220], 200)) == "agrees"
    assert compare.agreement(rounds([221, 221], 200)) == "differs"
    exact = {"metric": "stored_memory", "unit": "ratio", "n": None}
    assert compare.agreement(cell([3.0], 3.0, **exact)) == "agrees"
    assert compare.agreement(cell([3.0], 4.0, **exact)) == "differs"
    assert compare.agreement(rounds([None, None], None, "not reached")) == "agrees"
    assert compare.agreement(rounds([700, 710], None, "not reached; flag:B1")) == "differs"
    assert compare.agreement(rounds([None, 300], 300)) == "differs"


def test_what_is_not_compared():
    assert compare.agreement(None) == "missing"
    assert compare.agreement(cell([0.8], 0.8, status="missing", value=None)) == "missing"
    assert compare.agreement(cell([0.8], 0.8, scale="preview")) == ""
    assert compare.agreement(cell([0.8], 0.8, compare="ordering")) == ""
    assert compare.agreement(cell([0.8])) == ""
    assert compare.agreement(cell([0.8], 0.8, status="diverged", value=None)) == "differs"


def test_rank_correlation_by_hand():
    """Ranks 1, 2, 3 against 1, 3, 2: 1 - 6 (0 + 1 + 1) / (3 x 8) = 0.5."""
    column = {"a": cell([0.1], 0.5), "b": cell([0.2], 0.7), "c": cell([0.3], 0.6)}
    assert compare.rank_correlation(column) == pytest.approx(0.5)
    assert compare.rank_correlation({name: column[name] for name in "ab"}) is None
    late = {"a": rounds([10], 100), "b": rounds([20], 200), "c": rounds([None], None, "not reached")}
    assert compare.rank_correlation(late) == pytest.approx(1.0)


def test_claims_are_printed_leads_beyond_the_printed_spreads():
    column = {
        "a": cell([0.5], 0.80, 0.01), "b": cell([0.5], 0.77, 0.01), "c": cell([0.5], 0.755, 0.01),
        "none": cell([0.5]),
    }  # fmt: skip
    assert set(compare.claims(column)) == {("a", "b"), ("a", "c")}, "b and c overlap"
    clients = {row: replace(each, paper_note="std_kind=clients") for row, each in column.items()}
    assert ("b", "c") in compare.claims(clients), "a deviation over clients bounds no mean"
    late = {"a": rounds([1], 700), "b": rounds([1], None, "not reached")}
    assert compare.claims(late) == [("a", "b")]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (cell([0.51, 0.71, 0.61]), cell([0.5, 0.7, 0.6]), "held clearly"),
        (cell([0.6, 0.5]), cell([0.5, 0.55]), "held"),
        (cell([0.5, 0.55]), cell([0.6, 0.5]), "not held"),
        (cell([0.5, 0.7, 0.6]), cell([0.51, 0.71, 0.61]), "reversed clearly"),
        (cell([0.6]), cell([0.1]), "held"),
        (rounds([100, 110]), rounds([None, None]), "held clearly"),
        (rounds([100, None]), rounds([None, None]), "held"),
        (rounds([None, None]), rounds([None, None]), "untested"),
        (rounds([None, None]), rounds([100, 110]), "reversed clearly"),
        (cell([0.5], status="missing"), cell([0.5]), "untested"),
        (cell([0.5, 0.5]), cell([0.5]), "untested"),
        (None, cell([0.5]), "untested"),
    ],
)  # fmt: skip
def test_what_a_claim_comes_to(a, b, expected):
    assert compare.outcome(a, b) == expected and expected in compare.OUTCOMES


def test_rows_of_different_quantities_are_in_no_order():
    """FedSMOO, Table 2: a row a metric."""
    column = {
        "consistency": cell([0.5, 0.6], 0.8, metric="consistency"),
        "trace": cell([5.0, 6.0], 8.0, metric="hessian_trace"),
        "top": cell([0.1, 0.1], 0.2, metric="hessian_top_eigenvalue"),
    }
    assert compare.marks(column) == {} and compare.claims(column) == [] and compare.rank_correlation(column) is None


def test_two_quantities_printed_under_one_name_are_claimed_but_not_marked():
    """DFedSAM, Table 1, "Train": the server's model on all images, nodes' own on their own."""
    column = {
        "fedavg": cell([0.8, 0.81, 0.8], 0.9, metric="train_accuracy"),
        "dfedavg": cell([0.99, 0.98, 0.99], 0.95, metric="node_train_accuracy"),
        "dpsgd": cell([0.9, 0.89, 0.9], 0.92, metric="node_train_accuracy"),
    }
    assert compare.marks(column) == {}
    assert set(compare.claims(column)) == {("dfedavg", "fedavg"), ("dfedavg", "dpsgd"), ("dpsgd", "fedavg")}
    assert compare.rank_correlation(column) == pytest.approx(1.0)
    peers = {row: cell for row, cell in column.items() if row != "fedavg"}
    assert compare.marks(peers) == {"dfedavg": "best"}


def test_facts_are_equal_or_not_but_in_no_order():
    """FedLESAM, Table 6: neither more nor fewer classes are better."""
    column = {name: cell([n], n, metric="classes", n=None) for name, n in (("a", 10), ("b", 100), ("c", 65))}
    assert compare.rank_correlation(column) is None and compare.claims(column) == []
    assert compare.agreement(column["a"]) == "agrees"
    assert compare.agreement(cell([10], 11, metric="classes", n=None)) == "differs"
