"""Cells: values worked out by hand from runs of a few rounds; PyHessian's estimate next to ours."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed import plan
from flatfed.errors import DataError
from flatfed.plan import at_scale
from flatfed.runs import versions
from flatfed.runs.curvature import OtherEstimate
from flatfed.tables import compare, doubts

#: Runs have these components, in these versions.
COMPONENTS = {"update": {"name": "fedavg", "params": {}}, "model": {"name": "cnn"}, "partition": {"scheme": "iid"}}
NOW = {"engine": 1, "algorithm": 1, "model": 1, "partition": 1}


@pytest.fixture
def run(tmp_path):
    """A function that writes a run with test accuracies, each after ``every`` rounds; returns its folder."""

    def write(name: str, accuracies: list, every: int = 1, **record) -> str:
        rounds = [every * (i + 1) for i in range(len(accuracies))]
        return made.run(tmp_path / name, {"round": rounds, "test_accuracy": accuracies}, settings=COMPONENTS, **record)

    return write


def make(runs: list[str], **changes):
    """Return the cell of runs of four rounds."""
    spec = {
        "table": "t", "column": "c", "row": "r", "scale": "paper", "metric": "test_accuracy", "unit": "percent",
        "target": None, "window": 1, "rounds": 4, "seeds": list(range(1, len(runs) + 1)), "runs": runs,
        "paper": {"value": 80.0, "spread": 0.14, "note": "printed OUR"},
    }  # fmt: skip
    return made.summary(**{**spec, **changes})


@pytest.fixture
def two(run):
    """Two runs of four rounds: they end at 0.80 and 0.84 and were better before."""
    return [run("a", [0.5, 0.7, 0.9, 0.8]), run("b", [0.4, 0.6, 0.72, 0.84])]


def test_final_round_mean_spread_and_difference(two):
    cell = make(two)
    assert cell.status == "ok" and cell.unit == "fraction" and cell.n == 2
    assert cell.value == pytest.approx(0.82)
    assert cell.spread == pytest.approx(0.04 / math.sqrt(2))  # (0.04 / 2)^2 * 2 / (2 - 1), rooted
    assert cell.values == [0.8, 0.84]
    assert cell.best == [0.9, 0.84], "the best round is an extra, the final one is the value"
    assert (*cell.paper, cell.difference) == pytest.approx((0.8, 0.0014, 0.02))
    assert make(two, window=2).values == pytest.approx([0.85, 0.78]), "the mean of the last evaluated rounds"
    one = make(two[:1])
    assert (one.value, one.spread, one.n) == (0.8, None, 1)


def rounds_to(target, runs):
    paper = {"value": None, "spread": None, "note": "not reached; flag:B1"}
    return make(runs, metric="rounds_to_target", unit="rounds", target=target, paper=paper)


def test_rounds_to_target_is_the_first_crossing_counted_from_one(run, two):
    cell = rounds_to(0.7, two)
    assert (cell.values, cell.value, cell.reached, cell.unit) == ([2, 3], 2.5, "2/2", "rounds")
    assert cell.spread == pytest.approx(math.sqrt(0.5)) and cell.difference is None, "the paper prints no number"
    assert rounds_to(0.75, [run("c", [0.5, 0.75], every=2)]).value == 4, "rounds, not lines"
    cell = rounds_to(0.88, two)
    assert (cell.status, cell.value, cell.reached) == ("not_reached", None, "1/2")
    assert (cell.values, cell.spread) == ([3, None], None)


def test_any_diverged_run_makes_the_cell_diverged(run, two):
    cell = make([*two, run("c", [0.5, 0.1], rounds_done=2, diverged_at=3)])
    assert (cell.status, cell.value, cell.n) == ("diverged", None, 3)
    assert cell.values == [0.8, 0.84, None] and "round 3" in cell.problems[0]
    cell = make([run("d", ["nan", 0.6, 0.7, "nan"])])
    assert cell.status == "diverged" and cell.best == [0.7]
    # Its metrics.csv has a header alone, without the columns that only evaluated rounds have.
    at_once = run("e", [], diverged_at=1)
    cell = make([at_once], metric="train_accuracy")
    assert (cell.status, cell.value, cell.problems) == ("diverged", None, [f"{at_once} diverged at once"])


@pytest.mark.parametrize("damage", ["run.json", "metrics.csv", "unfinished"])
def test_absent_or_unfinished_runs_make_the_cell_missing(run, two, damage):
    if damage == "unfinished":
        two[1] = run("c", [0.5, 0.6])
    else:
        Path(two[1], damage).unlink()
    cell = make(two)
    assert (cell.status, cell.value, cell.n, cell.values) == ("missing", None, 1, [0.8, None])
    assert len(cell.problems) == 1 and two[1] in cell.problems[0]


@pytest.mark.parametrize("data", [None, "dataset", "partition"])
def test_a_run_and_its_base_of_other_data_do_not_pair(run, two, data):
    base = [run("c", [0.5] * 4), run("d", [0.5] * 4, **({f"{data}_digest": "1" * 64} if data else {}))]
    ask = {"unit": "pp", "relative": "difference", "base": "fedavg", "paper": None, "base_runs": base}
    if data is None:
        assert make(two, **ask).values == pytest.approx([0.3, 0.34])
        return
    with pytest.raises(DataError, match=f"cell t/c/r: seed 2: .* have different {data.replace('dataset', 'data')}"):
        make(two, **ask)


@pytest.mark.parametrize(
    ("records", "outdated"),
    [
        ([{"versions": NOW}] * 2, []),
        ([{}, {"versions": NOW}], []),
        ([{"versions": {**NOW, "engine": 0}}] * 2, [1, 2]),
    ],
    ids=["present", "unknown", "older"],
)
def test_runs_of_other_code_are_noted(run, records, outdated):
    runs = [run(f"p/s/a/seed{n}", [0.1, 0.2, 0.3, 0.4 * n], **record) for n, record in enumerate(records, 1)]
    cell = make(runs)
    assert cell.outdated == {f"p/s/a/seed{seed}": "engine is version 0, now 1" for seed in outdated}
    assert cell.value == pytest.approx(0.6) and len(cell.warnings) == len(outdated)
    texts = doubts.outdated([cell])
    assert len(texts) == bool(outdated) and all("engine is version 0, now 1" in text for text in texts)


def test_images_that_many_clients_use_are_noted(run):
    """The largest number of a split."""
    runs = [run(f"p/s/a/seed{n}", [0.4] * 4, repetition={"uses": n, "distinct": 38 - n}) for n in (12, 36, 24)]
    text = "Small classes repeat images. s of p: an image is used 36 times; each client has at least 2 distinct images."
    assert doubts.repetitions([make(runs)]) == [text]
    assert doubts.repetitions([make([run("p/s/b/seed1", [0.4] * 4)])]) == []


def test_a_mean_over_different_code_is_refused(run, tmp_path):
    """As after an edit of an algorithm between the trainings of two seeds."""
    changed = {**NOW, "algorithm": "0a1b" * 16}
    runs = [run(f"p/s/a/seed{seed}", [0.4] * 4, versions=code) for seed, code in enumerate((NOW, changed), 1)]
    words = r"p/s/a/seed1 \(the present code\) and p/s/a/seed2 \(algorithm is version 0a1b0a1b0a1b, now 1\); train them"
    with pytest.raises(DataError, match=f"cell .*: {words}"):
        make(runs)
    gone = made.config({**COMPONENTS, "update": {"name": "fedgone"}})
    assert versions.changes(gone, NOW).startswith("versions unknown here (")
    # A present timing hides no note on the run.
    settings = made.requested(runs[1]).config.as_json()
    timing = made.timing(tmp_path / "timing.json", settings, 2.0, versions=NOW)
    ask = {"metric": "compute_time_to_target", "unit": "s", "target": 0.3, "timing": timing, "paper": None}
    assert make(runs[1:], **ask).outdated == {"p/s/a/seed2": "algorithm is version 0a1b0a1b0a1b, now 1"}


#: What two traces may be apart: three standard errors of their difference, whose errors are 3 and 4.
APART = 15.0


@pytest.fixture
def hessians(run, tmp_path):
    """A function that returns the cell of Hessians of consecutive seeds.

    ``pairs``: our estimate and PyHessian's for each seed; residuals 0.02 and 0.01, standard errors of traces 3 and 4.
    """

    def cell(metric: str, pairs: list, row: str = "a"):
        paths, runs = [], []
        for seed, pair in enumerate(pairs, 1):
            ours, theirs = pair or (None, None)
            estimate = made.hessian(ours, ours, theirs and (theirs, theirs)) if pair else made.hessian_of_diverged()
            paths.append(made.written(tmp_path / row / f"{seed}.json", estimate))
            runs.append(made.run(tmp_path / row / str(seed), {"round": [3]}, settings={**OF, **COMPONENTS}))
        paper = {"value": 100.0, "spread": None, "note": "", "decimals": 1}
        return make(runs, metric=f"hessian_{metric}", unit="number", rounds=3, analyses=paths, row=row, paper=paper)

    return cell


OF = {"protocol": "p", "split": "s", "algorithm": "a", "seed": 1, "scale": "paper"}


def test_a_cell_has_the_means_of_both_and_the_error_of_their_difference(hessians):
    """Traces of two seeds 20 apart each way cancel; the error is the mean of the seeds'."""
    trace = hessians("trace", [(100, 120), (90, 70)])
    assert (trace.value, trace.values) == (95.0, [100, 90])
    error = pytest.approx(APART)
    assert trace.beside == OtherEstimate(
        **{"by": "PyHessian", "value": 95.0, "spread": pytest.approx(50 / math.sqrt(2)), "values": [120, 70]},
        **{"difference": 0.0, "error": error, "within": True},
    )
    alone = hessians("trace", [(100, 120)]).beside
    assert (alone.spread, alone.error, alone.within) == (None, error, False)
    top = hessians("top_eigenvalue", [(10.0, 10.02), (12, 12)]).beside
    assert (top.difference, top.error, top.within) == (pytest.approx(0.01), pytest.approx(0.03), True)
    assert hessians("trace", [(2, None), (2, 2)]).beside is None, "PyHessian's estimate is absent for one seed"


def test_a_warning_of_a_hessian_names_its_file(hessians, tmp_path):
    hessians("trace", [(100, None)])
    runs, path = [str(tmp_path / "a/1")], tmp_path / "warned.json"
    texts = ["the trace has not converged", "the eigenvalues have not converged"]
    made.written(path, made.hessian(100, 100, warnings=texts))
    cell = make(runs, metric="hessian_trace", unit="number", rounds=3, analyses=[path])
    assert cell.warnings == [f"{path}: {texts[0]}"]


def test_a_table_can_leave_out_pyhessians_estimates(hessians, tmp_path):
    trace = hessians("trace", [(100, 120)])
    assert trace.beside and replace(trace, document=made.document(pyhessian=False)).beside is None
    file = "tables/cifar10_cnn_hessian.yaml"
    root = made.edited(tmp_path / "project", file, lambda table: table.update(pyhessian=False))
    experiment = plan.load(root, {"scale": "paper", "tables": [], "figures": []})
    for table, shown in (("cifar10_cnn_hessian", False), ("fedsmoo2023_T2", True)):
        assert at_scale.table(experiment, "paper", table).document.pyhessian is shown


@pytest.mark.parametrize(
    ("metric", "ours", "theirs", "within"),
    [
        # An eigenvalue is within the sum of both residuals.
        *(("top_eigenvalue", 10.0, number, True) for number in ([10.0299] * 3, [9.9701] * 3)),
        *(("top_eigenvalue", 10.0, number, False) for number in ([10.0302] * 3, [9.96] * 3)),
        # More seeds do not make the error of traces smaller: analyses may have the same random vectors.
        *(("trace", 100, [114.9] * seeds, True) for seeds in (1, 2, 3)),
        ("trace", 100, [114.9, 114.9, 114.9, 115.5], False),
    ],
)
def test_estimates_agree_within_their_errors(hessians, metric, ours, theirs, within):
    assert hessians(metric, [(ours, number) for number in theirs]).beside.within is within


def test_a_negative_trace_has_no_rank():
    """Its model is at no minimum: a smaller number is not flatter."""
    traces = {"metric": "hessian_trace", "unit": "number"}
    rows = {row: made.cell([x] * 6, abs(x), **traces) for row, x in (("a", -90.0), ("b", 100.0), ("c", 110.0))}
    assert compare.best_rows(rows) == {"b"} and compare.rank_correlation(rows) is None, "of the three, two have a rank"
    positive = {**rows, "a": made.cell([90.0] * 6, 90.0, **traces)}
    assert compare.best_rows(positive) == {"a"} and compare.rank_correlation(positive) == pytest.approx(1)
