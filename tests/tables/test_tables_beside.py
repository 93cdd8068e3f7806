"""PyHessian's estimate beside ours in a cell: by which rule they agree, and that indefinite Hessians have no rank."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import made as fixtures
from flatfed.errors import DataError
from flatfed.plan.number import Number
from flatfed.runs.curvature import OtherEstimate
from flatfed.tables import cells, claims, compare
from flatfed.tables.cell import Cell
from made import cell_numbers
from made import run as make_run

OF = {"protocol": "p", "split": "s", "algorithm": "a", "seed": 1, "scale": "paper", "dataset": {"name": "d"}}
METRICS = {"x.top": "hessian_top_eigenvalue", "x.trace": "hessian_trace"}
#: What two traces may be apart: errors 3 and 4 of 32 and 64 degrees of freedom are 5 of 95 (25^2 / (81/32 + 256/64)
#: is 95.7), whose 0.99865 quantile of Student's t is 3.0809.
APART = 5 * 3.0809


def make_hessian(path: Path, top: tuple[float, float], trace: tuple[float, float], **changes) -> str:
    """Write a hessian.json: ours and PyHessian's; residuals 0.02 and 0.01, standard errors of the traces 3 and 4."""
    return fixtures.written(path, fixtures.hessian(top[0], trace[0], (top[1], trace[1]), **changes))


def specify(folder: Path, column: str, row: str, paths: list[str]) -> list[Number]:
    spec = {
        "table": "t", "column": column, "row": row, "scale": "paper", "metric": METRICS[column], "unit": "number",
        "target": None, "window": 1, "rounds": 3, "seeds": list(range(1, len(paths) + 1)),
        "runs": [make_run(folder / f"run{n}", {"round": [3]}, settings=OF) for n in range(len(paths))],
        "analyses": paths,
        "paper": {"value": 100.0, "spread": None, "note": "", "decimals": 1},
    }  # fmt: skip
    return cell_numbers(**spec)


def make_cell(folder: Path, column: str, row: str, paths: list[str]) -> Cell:
    return cells.summarise(specify(folder, column, row, paths))


def test_a_cell_has_the_means_of_both_and_the_error_of_their_difference(tmp_path):
    """Traces of two seeds 20 apart each way cancel; the error is the mean of the seeds'."""
    paths = [make_hessian(tmp_path / "1", (10.0, 10.02), (100, 120)), make_hessian(tmp_path / "2", (12, 12), (90, 70))]
    trace = make_cell(tmp_path, "x.trace", "a", paths)
    assert (trace.value, trace.values) == (95.0, [100, 90])
    assert trace.beside == OtherEstimate(
        by="PyHessian",
        value=95.0,
        spread=pytest.approx(50 / math.sqrt(2)),
        values=[120, 70],
        difference=0.0,
        error=pytest.approx(APART, abs=1e-3),
        within=True,
    )
    top = make_cell(tmp_path, "x.top", "a", paths).beside
    assert (top.difference, top.error, top.within) == (pytest.approx(0.01), pytest.approx(0.03), True)
    alone = make_cell(tmp_path, "x.trace", "a", paths[:1]).beside
    assert (alone.spread, alone.error, alone.within) == (None, pytest.approx(APART, abs=1e-3), False)


@pytest.mark.parametrize(("theirs", "within"), [(10.0299, True), (9.9701, True), (10.0302, False), (9.96, False)])
def test_an_eigenvalue_is_within_the_sum_of_both_residuals(tmp_path, theirs, within):
    paths = [make_hessian(tmp_path / str(seed), (10.0, theirs), (100, 100)) for seed in (1, 2, 3)]
    assert make_cell(tmp_path, "x.top", "a", paths).beside.within is within


def test_more_seeds_do_not_make_the_error_of_traces_smaller(tmp_path):
    """Analyses may have been made with the same random vectors, so that their errors need not cancel."""
    paths = [make_hessian(tmp_path / str(seed), (10, 10), (100, 115.3)) for seed in (1, 2, 3)]
    assert all(make_cell(tmp_path, "x.trace", "a", paths[:n]).beside.within for n in (1, 2, 3))
    paths.append(make_hessian(tmp_path / "4", (10, 10), (100, 116.5)))
    found = make_cell(tmp_path, "x.trace", "a", paths).beside
    assert found.error == pytest.approx(APART, abs=1e-3) and not found.within


def test_a_mean_of_pyhessian_needs_its_estimate_for_every_seed(tmp_path):
    alone = fixtures.written(tmp_path / "1", fixtures.hessian(1, 2))
    both = make_hessian(tmp_path / "2", (1, 1), (2, 2))
    assert make_cell(tmp_path, "x.trace", "a", [alone, both]).beside is None


def test_a_diverged_run_makes_its_cells_diverged(tmp_path):
    paths = [
        make_hessian(tmp_path / "1", (10, 10), (100, 100)),
        fixtures.written(tmp_path / "2", fixtures.hessian_of_diverged()),
    ]
    for column, ours in (("x.top", 10), ("x.trace", 100)):
        cell = make_cell(tmp_path, column, "a", paths)
        assert (cell.status, cell.value, cell.values, cell.beside) == ("diverged", None, [ours, None], None)
        assert cell.problems == [f"{paths[1]}: the run diverged in round 7"]


def test_estimates_that_are_no_numbers_are_refused_by_name(tmp_path):
    path = make_hessian(tmp_path / "h.json", (10, 10), (100, 100))
    record = json.loads(Path(path).read_text())
    for change in ({"trace": None}, {"pyhessian": {"trace": 1.0}}, {"agreement": None}, {"top_eigenvalue": math.nan}):
        Path(path).write_text(json.dumps({**record, **change}))
        with pytest.raises(DataError, match=r"h\.json: not a Hessian"):
            make_cell(tmp_path, "x.trace", "a", [path])


def test_a_negative_trace_has_no_rank(tmp_path):
    """Its model is at no minimum: a smaller number is not flatter."""
    rows = {}
    for row, trace, printed in (("a", -90, 90.0), ("b", 100, 100.0)):
        paths = [make_hessian(tmp_path / f"{row}{n}", (10, 10), (trace, trace)) for n in range(6)]
        rows[row] = replace(make_cell(tmp_path, "x.trace", row, paths), paper_value=printed)
    assert claims.marks([rows]) == [{}] and claims.claimed(rows) == [("a", "b")]
    assert [claim.outcome for claim in claims.results([rows])] == ["untested"]
    positive = {**rows, "a": replace(rows["a"], value=90.0, values=[90.0] * 6)}
    assert claims.marks([positive]) == [{"a": "best"}] and claims.results([positive])[0].outcome == "held clearly"
    four = {f"{row}{n}": replace(rows[row], value=90.0 + n, paper_value=90.0 + n) for n in (0, 1) for row in "ab"}
    assert compare.rank_correlation(four) is None, "of the four, two have a rank"
