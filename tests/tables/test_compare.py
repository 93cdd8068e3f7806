"""Ours against the paper's: intervals, tolerances, ranks, worked out by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from flatfed import cli
from flatfed.plan.metrics import Reading
from flatfed.tables import compare, doubts
from flatfed.tables.cells import Cell, FilledTable
from flatfed.tables.readings import RunReading
from made import cell, document
from made import rounds_cell as rounds

EXACT = {"metric": "stored_memory", "unit": "count", "n": None}
OF_BASE = {"metric": "rounds_to_target", "unit": "x", "relative": "speedup"}
#: Tolerances of a table: agrees, near.
POINTS, PERCENT = {"tolerance": {"agrees": 1, "near": 2}}, {"tolerance": {"agrees": 15, "near": 30}}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (cell([0.80, 0.80], 0.809), "agrees"),  # 0.9 points
        (cell([0.80, 0.80], 0.811), "differs"),  # 1.1 points
        (cell([0.79, 0.81], 0.819), "agrees"),  # deviation 1.414, 2 x 1.414 / sqrt(2) = 2 points
        (cell([0.79, 0.81], 0.8201), "differs"),
        (rounds([220, 220], 200), "agrees"),
        (rounds([221, 221], 200), "differs"),
        (cell([3.0], 4.0, **EXACT), "differs"),
        (rounds([None, None], None, "not reached"), "agrees"),
        (rounds([700, 710], None, "not reached; flag:B1"), "differs"),
        (cell([0.7286], 0.7186, **POINTS), "agrees"),
        (cell([0.7287], 0.7186, **POINTS), "near"),
        (cell([0.6985], 0.7186, **POINTS), "differs"),
        (cell([0.70, 0.76], 0.7186, **POINTS), "near"),  # the spread over seeds does not widen it
        (rounds([456], 397, **PERCENT), "agrees"),
        (rounds([457], 397, **PERCENT), "near"),
        (rounds([517], 397, **PERCENT), "differs"),
        (rounds([464], None, "not reached; flag:B1", not_judged=["B1"]), ""),
        (cell([0.8], 0.8, status="missing", value=None), "missing"),
        (cell([0.8], 0.8, status="diverged", value=None), "differs"),
        (cell([0.8], 0.8, compare="ordering"), ""),
        (cell([0.8]), ""),
        (cell([1.0], 1.0, **OF_BASE, base="r"), ""),  # of the base row itself
        (cell([1.0], 1.0, **OF_BASE, base="other"), "agrees"),
    ],
)
def test_agreement(cell, expected):
    assert compare.agreement(cell) == expected


def test_rank_correlation_by_hand():
    """Ranks 1, 2, 3 against 1, 3, 2: 1 - 6 (0 + 1 + 1) / (3 x 8) = 0.5."""
    column = {"a": cell([0.1], 0.5), "b": cell([0.2], 0.7), "c": cell([0.3], 0.6)}
    assert compare.rank_correlation(column) == pytest.approx(0.5)
    assert compare.rank_correlation({name: column[name] for name in "ab"}) is None
    late = {"a": rounds([10], 100), "b": rounds([20], 200), "c": rounds([None], None, "not reached")}
    assert compare.rank_correlation(late) == pytest.approx(1.0)


def test_rows_of_different_quantities_are_in_no_order():
    """FedSMOO, Table 2: a row a metric."""
    column = {
        "consistency": cell([0.5, 0.6], 0.8, metric="consistency"),
        "trace": cell([5.0, 6.0], 8.0, metric="hessian_trace"),
        "top": cell([0.1, 0.1], 0.2, metric="hessian_top_eigenvalue"),
    }
    assert compare.rank_correlation(column) is None
    assert compare.best_rows(column) == set()


def test_two_quantities_printed_under_one_name_are_ranked_but_not_marked():
    """DFedSAM, Table 1, "Train": the server's model on all images, nodes' own on their own."""
    column = {
        "fedavg": cell([0.8, 0.81, 0.8], 0.9, metric="train_accuracy"),
        "dfedavg": cell([0.99, 0.98, 0.99], 0.95, metric="node_train_accuracy"),
        "dpsgd": cell([0.9, 0.89, 0.9], 0.92, metric="node_train_accuracy"),
    }
    assert compare.best_rows(column) == set()
    assert compare.rank_correlation(column) == pytest.approx(1.0)


def test_the_best_mean_of_a_column_is_marked():
    """The largest accuracy, the fewest rounds; not a column's only mean, and no time, whose seeds show no error."""
    accuracies = {"a": cell([0.8, 0.9]), "b": cell([0.86, 0.86]), "c": cell([0.7, 0.7])}
    assert compare.best_rows(accuracies) == {"b"}
    assert compare.best_rows({**accuracies, "d": cell([0.85, 0.87])}) == {"b", "d"}, "equal means"
    assert compare.best_rows({"a": accuracies["a"], "b": cell([0.9], status="missing", value=None)}) == set()
    assert compare.best_rows({"a": rounds([10, 30]), "b": rounds([15, 21]), "c": rounds([None, 2])}) == {"b"}
    speedup = {"a": cell([2.0], **OF_BASE), "b": cell([1.0], **OF_BASE)}
    assert compare.best_rows(speedup) == {"a"}, "of fewer rounds the larger ratio"
    times = {"metric": "seconds_per_round", "unit": "s"}
    assert compare.best_rows({"a": cell([1.0], **times), "b": cell([2.0], **times)}) == set()


def test_missing_cells_of_one_cause_are_one_line_and_the_finished_seeds_are_named():
    def of_row(row: str, *seeds: int, **changes) -> Cell:
        """A cell of seeds 1 and 2 that has finished runs of ``seeds``."""
        readings = {seed: RunReading(Reading() if seed in seeds else None) for seed in (1, 2)}
        readings |= {seed: RunReading(None, problem=f"{row}/seed{seed} has no run.json") for seed in {1, 2} - {*seeds}}
        summary = cell([0.8, 0.8], 0.8, row=row, **changes)
        measured = [replace(entry, runs=[readings[entry.number.seed]]) for entry in summary.measured]
        return replace(summary, measured=measured)

    missing = {"status": "missing", "value": None}
    cells = [of_row("a", 1, 2), of_row("b", 1, **missing), of_row("c", 1, **missing), of_row("d", **missing)]
    rows = {one.row: SimpleNamespace(algorithm=one.row) for one in cells}
    shown = SimpleNamespace(id="T", scale="paper", paper=True, document=document(), rows=rows)
    shown.columns = {"c": SimpleNamespace(id="c")}
    lines, agrees = compare.with_paper(FilledTable(shown, {"c": {one.row: one for one in cells}}))
    assert not agrees and lines == [
        "T, paper scale: 4 cells: 1 agrees, 0 near, 0 differ, 3 missing",
        "  missing  c, b, c, d: b/seed2 has no run.json (and 3 more)",
        "  remedy   --config seeds=[1] compares the finished seeds",
    ]


def test_verify_notes_runs_of_other_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doubts, "outdated", lambda cells: [f"Of other code: {len(cells)} cells."])
    assert cli.main(["verify", "fedlesam2024_T7", "--scale", "paper"]) == 0
    assert re.search(r"\n  Of other code: \d+ cells\.\n$", capsys.readouterr().out)
