"""Metrics, worked out by hand from runs of three rounds; ratios paired over seeds; declared costs."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed import algorithms, files
from flatfed.errors import DataError
from flatfed.files import digest_file
from flatfed.plan.metrics import METRICS, RELATIVES, unit_of
from flatfed.plan.number import Number
from flatfed.plan.quantity import Reading
from flatfed.plan.units import UNITS, as_printed, signed, written
from flatfed.runs.curvature import RelativeErrors
from flatfed.tables import cells
from repository import ROOT

DESCRIPTION = {"protocol": "p", "split": "s", "algorithm": "a", "seed": 1, "rounds": 3, "scale": "paper"}
FEDCM = {name: declared.default for name, declared in algorithms.load("fedcm").parameters().items()}
DESCRIPTION["update"] = {"name": "fedcm", "params": FEDCM}
REFERENCE = ROOT / "config" / "reference"


def test_smoothed_readings_of_a_straight_line():
    """0.1 points a round: 68 % in round 680, smoothed or not; the last 10 rounds have no centred mean of 21."""
    rounds = list(range(1, 801))
    line = Reading(50, history={"round": rounds, "test_accuracy": [at / 1000 for at in rounds]})
    assert METRICS["test_accuracy"].function(line) == pytest.approx(0.7755)
    assert METRICS["last_test_accuracy"].function(line) == 0.8
    reached = METRICS["rounds_to_target"].function
    assert [reached(replace(line, target=0.6795, smoothing=width)) for width in (1, 3, 21)] == [680, 680, 680]
    assert [reached(replace(line, target=0.7895, smoothing=width)) for width in (1, 19, 21)] == [790, 790, 790]
    assert [reached(replace(line, target=0.7905, smoothing=width)) for width in (1, 19, 21)] == [791, 791, None]
    assert reached(replace(line, target=0.001, smoothing=21)) == 11


def make_run(folder: Path, test: list[float], **columns: list[float]) -> str:
    """Write a finished run: test accuracies round by round, and whatever other columns."""
    columns = {"round": list(range(1, len(test) + 1)), "test_accuracy": test, **columns}
    return made.run(folder, columns, settings=DESCRIPTION)


def specify(metric: str, unit: str, runs: list[str], **changes) -> list[Number]:
    spec = {
        "table": "t", "column": "c", "row": "r", "scale": "paper", "metric": metric, "unit": unit, "target": None,
        "window": 1, "rounds": 3, "seeds": list(range(1, len(runs) + 1)), "paper": None, "runs": runs,
    }  # fmt: skip
    return made.cell_numbers(**{**spec, **changes})


@pytest.fixture
def make():
    return lambda *args, **changes: cells.summarise(specify(*args, **changes))


def timing(path: Path, training: float, whole: float) -> str:
    return made.timing(path, {**DESCRIPTION, "seed": 2}, whole, training)


def test_seconds_of_another_run_are_refused(make, tmp_path):
    runs = [make_run(tmp_path / "a", [0.1, 0.9, 0.9])]
    path = timing(tmp_path / "t.json", 3.0, 5.0)
    made.timing(path, {**DESCRIPTION, "algorithm": "b"}, 5.0, 3.0)
    with pytest.raises(DataError, match=r"t\.json: is of another run than the requested one, by algorithm;"):
        make("seconds_per_round", "s", runs, timing=path)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_seconds_that_are_none_are_refused(make, tmp_path, seconds):
    runs = [make_run(tmp_path / "a", [0.1, 0.9, 0.9])]
    path = timing(tmp_path / "t.json", 3.0, 5.0)
    made.sealed(path, {**files.read_json(path), "seconds_per_round": seconds})
    message = r"t\.json: not the seconds of a round \(seconds_per_round: \S+ is not allowed; expected greater than 0\)"
    with pytest.raises(DataError, match=message):
        make("seconds_per_round", "s", runs, timing=path)


def test_generalization_error_is_train_minus_test_over_the_same_window(make, tmp_path):
    run = make_run(tmp_path / "a", [0.2, 0.5, 0.7], train_accuracy=[0.3, 0.8, 0.9])
    assert make("generalization_error", "pp", [run]).value == pytest.approx(0.2)
    assert make("generalization_error", "pp", [run], window=2).value == pytest.approx((0.3 + 0.2) / 2)


def test_nodes_generalization_error_is_of_two_models(make, tmp_path):
    """The nodes' own train accuracy minus their mean's test accuracy; the mean model's train accuracy has no part."""
    columns = {"train_accuracy": [0.3, 0.8, 0.8], "node_train_accuracy": [0.5, 0.95, 0.99]}
    run = make_run(tmp_path / "a", [0.2, 0.5, 0.7], **columns)
    assert make("node_generalization_error", "pp", [run]).value == pytest.approx(0.99 - 0.7)
    assert make("node_generalization_error", "pp", [run], window=2).value == pytest.approx(0.97 - 0.6)
    assert make("train_accuracy", "percent", [run]).value == 0.8


@pytest.mark.parametrize(
    ("metric", "column", "unit"),
    [
        ("train_accuracy", "train_accuracy", "percent"),
        ("client_train_accuracy", "client_train_accuracy", "percent"),
        ("client_test_accuracy", "client_test_accuracy", "percent"),
        ("node_train_accuracy", "node_train_accuracy", "percent"),
        ("train_client_std", "client_train_std", "pp"),
        ("test_client_std", "client_test_std", "pp"),
        ("consistency", "consistency", "squared_l2"),
    ],
)
def test_a_column_is_read_at_the_final_round(make, tmp_path, metric, column, unit):
    run = make_run(tmp_path / "a", [0.2, 0.5, 0.7], **{column: [0.125, 0.25, 0.5]})
    assert make(metric, unit, [run]).value == 0.5
    assert make(metric, unit, [run], window=2).value == 0.375


def test_a_column_that_the_protocol_does_not_evaluate_is_named(make, tmp_path):
    with pytest.raises(DataError, match="column 'train_accuracy' is missing"):
        make("train_accuracy", "percent", [make_run(tmp_path / "a", [0.1, 0.2, 0.3])])


def test_cost_to_target_counts_twice_the_larger_direction(make, tmp_path):
    """A model of 250 parameters, two clients a round; two vectors down and one up, as FedCM has it."""
    run = make_run(tmp_path / "a", [0.2, 0.6, 0.7], download_bytes=[4000, 8000, 12000], upload_bytes=[2000, 4000, 6000])
    assert make("communication_cost", "GB_params", [run], target=0.5).value == 2 * 8000 / 4
    assert make("download_to_target", "GB", [run], target=0.5).value == 8000
    assert make("upload_to_target", "GB", [run], target=0.65).value == 6000
    assert make("communication_cost", "GB_params", [run], target=0.9).status == "not_reached"


@pytest.mark.parametrize(("name", "vectors"), [("fedavg", 1), ("fedlesam", 1), ("fedlesam_d", 2), ("feddyn", 1)])
def test_cost_to_target_takes_the_vectors_that_the_paper_counts(tmp_path, name, vectors):
    """One model of 250 parameters each way and two clients: FedLESAM's Tables 5, 7 and 9 count FedLESAM-D twice."""
    columns = {"round": [1, 2], "test_accuracy": [0.2, 0.6], "download_bytes": [2000, 4000]}
    own = {**DESCRIPTION, "rounds": 2, "update": {"name": name, "params": {}}}
    run = made.run(tmp_path / "a", {**columns, "upload_bytes": columns["download_bytes"]}, settings=own)
    spec = specify("communication_cost", "GB_params", [run], target=0.5, rounds=2)
    assert cells.summarise(spec).value == 2 * vectors * 4000 / 4
    uploads = [replace(number, metric="upload_to_target", unit="GB") for number in spec]
    assert cells.summarise(uploads).value == 4000


def test_a_target_is_held_against_the_accuracy_that_the_protocol_names(make, tmp_path):
    run = make_run(tmp_path / "a", [0.6, 0.9, 0.8], client_test_accuracy=[0.1, 0.55, 0.7])
    assert make("rounds_to_target", "rounds", [run], target=0.5).value == 1
    cell = make("rounds_to_target", "rounds", [run], target=0.5, accuracy="client_test_accuracy")
    assert (cell.value, cell.best, cell.accuracy) == (2, [0.7], "client_test_accuracy")
    with pytest.raises(DataError, match="column 'client_test_accuracy' is missing"):
        make("test_accuracy", "percent", [make_run(tmp_path / "b", [0.1] * 3)], accuracy="client_test_accuracy")


def test_relative_cells_pair_seeds_before_they_average(make, tmp_path):
    """Ratios 1/3 and 2/2: their mean is 2/3; the ratio of means would be 3/5."""
    ours = [make_run(tmp_path / "a1", [0.9, 0.9, 0.9]), make_run(tmp_path / "a2", [0.1, 0.9, 0.9])]
    base = [make_run(tmp_path / "b1", [0.1, 0.1, 0.9]), make_run(tmp_path / "b2", [0.1, 0.9, 0.9])]
    also = {"target": 0.5, "base_runs": base, "base": "fedavg"}
    ratio = make("rounds_to_target", "x", ours, relative="ratio", **also)
    assert ratio.values == pytest.approx([1 / 3, 1]) and ratio.value == pytest.approx(2 / 3)
    assert ratio.base_values == [3, 2] and ratio.unit == "ratio" and ratio.base == "fedavg"
    assert make("rounds_to_target", "x", ours, relative="speedup", **also).values == pytest.approx([3, 1])
    gap = make("rounds_to_target", "rounds", ours, relative="difference", **also)
    assert gap.values == [-2, 0] and gap.unit == "rounds"
    assert make("rounds_to_target", "x", base, relative="ratio", **also).values == [1, 1]


def test_a_base_row_that_does_not_reach_or_is_absent_leaves_no_ratio(make, tmp_path):
    ours = [make_run(tmp_path / "a", [0.9, 0.9, 0.9])]
    late = make("rounds_to_target", "x", ours, relative="ratio", target=0.5, base_runs=[
        make_run(tmp_path / "b", [0.1, 0.1, 0.1])
    ])  # fmt: skip
    assert (late.status, late.value, late.reached) == ("not_reached", None, "0/1")
    gone = make("rounds_to_target", "x", ours, relative="ratio", target=0.5, base_runs=[str(tmp_path / "nowhere")])
    assert gone.status == "missing" and "nowhere" in gone.problems[0]


def test_means_over_splits_and_gains_over_a_base_row(make, tmp_path):
    """Two seeds, two splits each: means 0.5 and 0.7; the base row's 0.4 and 0.5."""
    finals = {"a": [0.4, 0.6, 0.6, 0.8], "b": [0.3, 0.5, 0.4, 0.6]}
    runs = {
        name: [make_run(tmp_path / f"{name}{i}", [0, 0, final]) for i, final in enumerate(row)]
        for name, row in finals.items()
    }
    mean = make("mean_test_accuracy", "percent", runs["a"], seeds=[1, 2])
    assert mean.values == pytest.approx([0.5, 0.7]) and mean.n == 2 and mean.best == pytest.approx([0.5, 0.7])
    gain = make("mean_test_accuracy_gain", "pp", runs["a"], seeds=[1, 2], base_runs=runs["b"])
    assert gain.values == pytest.approx([0.1, 0.2]) and gain.relative == "difference"
    one_short = make("mean_test_accuracy", "percent", [*runs["a"][:3], str(tmp_path / "gone")], seeds=[1, 2])
    assert one_short.status == "missing" and one_short.n == 1


def test_times_come_from_the_timing_run_and_rounds_from_each_seed(make, tmp_path):
    runs = [make_run(tmp_path / "a", [0.1, 0.9, 0.9]), make_run(tmp_path / "b", [0.1, 0.1, 0.9])]
    path = timing(tmp_path / "t.json", 3.0, 5.0)
    assert make("seconds_per_round", "s", runs, timing=path).values == [5.0]
    assert make("total_seconds", "s", runs, timing=path, target=0.5).values == [10.0, 15.0]
    assert make("compute_time_to_target", "minutes", runs, timing=path, target=0.5).values == [6.0, 9.0]
    base = {"base_runs": runs, "base_timing": timing(tmp_path / "u.json", 1.5, 10.0), "relative": "ratio"}
    assert make("compute_time_to_target", "x", runs, timing=path, target=0.5, **base).values == [2.0, 2.0]
    assert make("seconds_per_round", "x", runs, timing=path, **{**base, "relative": "speedup"}).values == [2.0]


def test_a_cell_says_whose_seconds_were_taken_while_the_machine_was_busy(make, tmp_path):
    runs = [make_run(tmp_path / "a", [0.1, 0.9, 0.9]), make_run(tmp_path / "b", [0.1, 0.1, 0.9])]
    calm = timing(tmp_path / "calm.json", 3.0, 5.0)
    busy = made.timing(tmp_path / "busy.json", DESCRIPTION, 5.0, 3.0, warning="the machine was busy")
    base = {"base_runs": runs, "base_timing": busy, "relative": "ratio", "target": 0.5}
    told = [f"{busy}: the machine was busy"]
    assert make("seconds_per_round", "s", runs, timing=calm).warnings == []
    assert make("seconds_per_round", "s", runs, timing=busy).warnings == told
    assert make("total_seconds", "x", runs, timing=calm, **base).warnings == told


def test_a_timing_that_was_not_made_says_what_makes_it(make, tmp_path):
    runs = [make_run(tmp_path / "a", [0.1, 0.9, 0.9]), make_run(tmp_path / "b", [0.1, 0.1, 0.9])]
    for metric, target in (("seconds_per_round", None), ("total_seconds", 0.5)):
        cell = make(metric, "s", runs, timing=str(tmp_path / "timing.json"), target=target)
        assert cell.status == "missing" and cell.value is None
        assert len(cell.problems) == 1 and "separate, undisturbed run: flatfed time" in cell.problems[0]
    base = {"base_runs": runs, "base_timing": timing(tmp_path / "u.json", 1, 1), "relative": "ratio", "target": 0.5}
    assert make("total_seconds", "x", runs, timing=str(tmp_path / "timing.json"), **base).status == "missing"


def test_a_damaged_timing_is_named(make, tmp_path):
    (tmp_path / "t.json").write_text('{"seconds_per_round": 1}')
    with pytest.raises(DataError, match=r"t\.json: not the seconds of a round"):
        make("seconds_per_round", "s", [make_run(tmp_path / "a", [1, 1, 1])], timing=str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("algorithm", "stored", "sent", "gradients"),
    [("fedavg", 1, 1, 1), ("fedsam", 1, 1, 2), ("mofedsam", 2, 2, 2), ("fedsmoo", 4, 2, 2), ("fedgamma", 3, 2, 2),
     ("fedlesam", 2, 1, 1), ("fedlesam_s", 4, 2, 1)],
)  # fmt: skip
def test_declared_costs_are_those_of_fedlesam_table_7(make, algorithm, stored, sent, gradients):
    for metric, printed in (
        ("stored_memory", stored), ("communication_per_round", sent), ("backpropagation_per_local_step", gradients)
    ):  # fmt: skip
        paper = {"value": printed, "spread": None, "note": ""}
        names = {"value": algorithm, "base_value": "fedavg"}
        declared = {key: Reading(algorithm=algorithms.build(name, {})) for key, name in names.items()}
        values = {key: METRICS[metric].function(reading) for key, reading in declared.items()}
        cell = make(metric, "x", [], relative="ratio", seeds=[], paper=paper, **values)
        assert (cell.status, cell.value, cell.n, cell.difference) == ("ok", printed, None, 0.0)


def test_analyses_are_read_per_run_and_missing_where_they_are_not_made(make, tmp_path):
    runs = [make_run(tmp_path / name, [0.1, 0.2, 0.3]) for name in ("x", "y")]
    for name, number in (("a", 10.0), ("b", 14.0)):
        made.written(tmp_path / name, made.hessian(number, 100.0))
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert make("hessian_top_eigenvalue", "number", runs, analyses=paths).value == 12.0
    gone = make("hessian_trace", "number", runs, analyses=[*paths[:1], str(tmp_path / "c")])
    assert gone.status == "missing" and gone.values == [100.0, None] and gone.errors is None
    assert make("hessian_scaled_trace", "number", runs, analyses=paths).value == 10.0
    errors = make("hessian_top_eigenvalue", "number", runs, analyses=paths).errors
    assert errors == RelativeErrors(estimate=pytest.approx(0.02 / 10), images=pytest.approx(0.1))


def test_an_analysis_without_the_scaled_hessian_is_missing(make, tmp_path):
    run = make_run(tmp_path / "x", [0.1, 0.2, 0.3])
    made.unscaled(made.written(tmp_path / "a", made.hessian(10.0, 100.0)))
    found = make("hessian_trace", "number", [run], analyses=[str(tmp_path / "a")])
    assert (found.value, found.errors) == (100.0, None)
    scaled = make("hessian_scaled_trace", "number", [run], analyses=[str(tmp_path / "a")])
    assert (scaled.status, scaled.value) == ("missing", None)
    assert scaled.problems == [f"{tmp_path / 'a'} is without hessian_scaled_trace; delete it to rebuild it"]


@pytest.mark.parametrize("what", ["dataset", "partition", "model"])
def test_an_analysis_of_another_model_or_other_data_is_refused(make, tmp_path, what):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "model.safetensors").write_bytes(b"weights")
    run = make_run(tmp_path / "x", [0.1, 0.2, 0.3])
    model = digest_file(Path(run, "model.safetensors"))
    hessian, own = tmp_path / "hessian.json", {}

    def cell(**changed):
        made.written(hessian, made.hessian(1.0, 1.0, **own, digests=made.digests(**{"model": model, **changed})))
        return make("hessian_trace", "number", [run], analyses=[str(hessian)])

    assert cell().value == 1.0
    with pytest.raises(DataError, match=f"hessian.json: was made with another {what} "):
        cell(**{what: "f" * 64})
    own["run"] = "p/s/b/seed1"
    with pytest.raises(DataError, match=r"hessian\.json: is of another run: p/s/b/seed1 at paper scale, not p/s/a"):
        cell()


def test_given_facts_need_no_run(make):
    cell = make("train_samples", "count", [], value=50000, seeds=[], paper={"value": 50000, "spread": None, "note": ""})
    assert (cell.status, cell.value, cell.n, cell.difference) == ("ok", 50000, None, 0)


def test_no_difference_is_taken_where_only_the_order_is_compared(make, tmp_path):
    run = make_run(tmp_path / "a", [0.1, 0.2, 0.3])
    paper = {"value": 79.5, "spread": None, "note": ""}
    cell = make("test_accuracy", "percent", [run], paper=paper, compare="ordering")
    assert cell.difference is None and cell.paper_value == 0.795


def test_every_metric_can_be_printed_and_every_number_of_the_papers_has_a_metric():
    stored = {unit.stored for unit in UNITS.values()}
    for name, metric in METRICS.items():
        assert {unit_of(name, relative) for relative in (None, *RELATIVES)} <= stored
        assert metric.words[0].isupper()
    printed = {metric.printed_as for metric in METRICS.values()}
    for path in REFERENCE.glob("*.csv"):
        used = {line.split(",")[2] for line in path.read_text(encoding="utf-8").splitlines()[1:]}
        assert used <= printed, path.name


@pytest.mark.parametrize(
    ("value", "spread", "unit", "text"),
    [
        (0.7952, 0.0013, "percent", "79.52 ± 0.13"),
        (259.0, None, "rounds", "259"),
        (259.0, 1.5, "rounds", "259.0 ± 1.5"),
        (50000, None, "count", "50000"),
        (0.8661, None, "squared_l2", "0.866"),
        (5280.0, None, "minutes", "88.0"),
        (1.56e11, None, "GB_params", "156.0"),
        (0.0005, None, "number", "0.0005"),
        (0.4, 0.01, "minutes", "0.0067 ± 0.0002"),
        (123456.0, None, "GB_params", "0.00012"),
        (0.064, None, "s", "0.064"),
        (0.1, None, "s", "0.10"),
        (0.0, None, "s", "0.00"),
        (0.00004, 0.00002, "percent", "0.00 ± 0.00"),
        (None, None, "percent", ""),
    ],
)
def test_numbers_are_written_in_printed_units(value, spread, unit, text):
    assert written(value, spread, unit) == text


def test_a_number_without_decimals_of_its_own_takes_the_papers():
    assert written(0.99995, None, "number", 5) == "0.99995" and written(0.99995, None, "number") == "1"
    assert signed(-0.25, "number", 2) == "−0.25" and written(0.5, None, "percent", 0) == "50.00"


def test_a_printed_zero_has_no_minus():
    assert signed(-0.00004, "percent") == "+0.00" and signed(-0.0123, "pp") == "−1.23"


def test_every_printed_number_is_written_as_it_was_printed():
    """From the reference files through the stored units and back: 1,588 numbers, digit by digit."""
    count = 0
    for path in REFERENCE.glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if not row["value"]:
                    continue
                unit, decimals = row["unit"] or "number", len(row["value"].partition(".")[2])
                stored = [float(text) / UNITS[unit].factor if text else None for text in (row["value"], row["std"])]
                shown = as_printed(*stored, unit, decimals)
                assert shown == row["value"] + (f" ± {row['std']}" if row["std"] else ""), (path.name, row)
                count += 1
    assert count == 1588 + 243, "the papers' own, and what others print of the same cells"
