"""Metrics, worked out by hand from runs of three rounds; ratios paired over seeds; declared costs; printed numbers."""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed.errors import DataError
from flatfed.plan.metrics import METRICS, Reading, unit_of
from flatfed.plan.units import RELATIVES, UNITS, as_printed, signed, written
from flatfed.runs import client_accuracies
from repository import ROOT

SETTINGS = {"protocol": "p", "split": "s", "algorithm": "a", "seed": 1, "rounds": 3, "scale": "paper"}
REFERENCE = ROOT / "config" / "reference"
#: Accuracies of which 0.5 is reached in round 2.
SECOND = [0.1, 0.9, 0.9]
#: The same in round 3.
THIRD = [0.1, 0.1, 0.9]


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


@pytest.fixture
def run(tmp_path):
    """A function that writes a finished run in a folder: test accuracies by round, and other columns."""

    def write(name: str, accuracies: list[float], update="fedavg", **columns: list[float]) -> str:
        settings = {**SETTINGS, "rounds": len(accuracies), "update": {"name": update, "params": {}}}
        columns = {"round": list(range(1, len(accuracies) + 1)), "test_accuracy": accuracies, **columns}
        return made.run(tmp_path / name, columns, settings=settings)

    return write


def make(metric: str, unit: str, runs: list[str], **changes):
    """Return the cell of a metric over runs of consecutive seeds."""
    spec = {
        "table": "t", "column": "c", "row": "r", "scale": "paper", "metric": metric, "unit": unit, "target": None,
        "window": 1, "rounds": 3, "seeds": list(range(1, len(runs) + 1)), "paper": None, "runs": runs,
    }  # fmt: skip
    return made.summary(**{**spec, **changes})


def timing(path: Path, training: float, whole: float, **about) -> str:
    return made.timing(path, {**SETTINGS, "seed": 2}, whole, training, **about)


def test_generalization_errors_are_of_the_same_window(run):
    """The nodes' own train accuracy minus their mean's test accuracy; the mean model's train accuracy has no part."""
    columns = {"train_accuracy": [0.3, 0.8, 0.8], "node_train_accuracy": [0.5, 0.95, 0.99]}
    runs = [run("a", [0.2, 0.5, 0.7], **columns)]
    for metric, last, two in (("generalization", 0.1, 0.2), ("node_generalization", 0.29, 0.37)):
        assert make(f"{metric}_error", "pp", runs).value == pytest.approx(last)
        assert make(f"{metric}_error", "pp", runs, window=2).value == pytest.approx(two)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        *((f"{name}_accuracy", "percent") for name in ("train", "client_train", "client_test", "node_train")),
        *(("train_client_std", "pp"), ("test_client_std", "pp"), ("consistency", "squared_l2")),
    ],
)
def test_a_column_is_read_at_the_final_round(run, metric, unit):
    column = metric.replace("train_client", "client_train").replace("test_client", "client_test")
    runs = [run("a", [0.2, 0.5, 0.7], **{column: [0.125, 0.25, 0.5]})]
    assert make(metric, unit, runs).value == 0.5
    assert make(metric, unit, runs, window=2).value == 0.375
    with pytest.raises(DataError, match=f"column '{column}' is missing"):
        make(metric, unit, [run("b", [0.1, 0.2, 0.3])])


@pytest.mark.parametrize(
    ("name", "down", "up", "cost"),
    [("fedcm", 4000, 2000, 2 * 8000), ("fedlesam", 2000, 2000, 2 * 4000), ("fedlesam_d", 2000, 2000, 2 * 2 * 4000)],
)

def test_cost_to_target_counts_twice_the_larger_direction(run, name, down, up, cost):
    """A model of 250 parameters and two clients a round. FedCM sends two vectors; FedLESAM counts FedLESAM-D twice."""
    traffic = {"download_bytes": [down, 2 * down, 3 * down], "upload_bytes": [up, 2 * up, 3 * up]}
    runs = [run("a", [0.2, 0.6, 0.7], update=name, **traffic)]
    assert make("communication_cost", "GB_params", runs, target=0.5).value == cost / 4
    assert make("download_to_target", "GB", runs, target=0.5).value == 2 * down
    assert make("upload_to_target", "GB", runs, target=0.65).value == 3 * up
    assert make("communication_cost", "GB_params", runs, target=0.9).status == "not_reached"


def test_a_target_is_compared_with_the_accuracy_that_the_protocol_names(run):
    runs = [run("a", [0.6, 0.9, 0.8], client_test_accuracy=[0.1, 0.55, 0.7])]
    assert make("rounds_to_target", "rounds", runs, target=0.5).value == 1
    cell = make("rounds_to_target", "rounds", runs, target=0.5, accuracy="client_test_accuracy")
    assert (cell.value, cell.best, cell.number.accuracy) == (2, [0.7], "client_test_accuracy")


def test_relative_cells_pair_seeds_before_they_average(run):
    """Ratios 1/3 and 2/2: their mean is 2/3; the ratio of means would be 3/5."""
    ours = [run("a1", [0.9, 0.9, 0.9]), run("a2", SECOND)]
    base = [run("b1", THIRD), run("b2", SECOND)]
    also = {"target": 0.5, "base_runs": base, "base": "fedavg"}
    ratio = make("rounds_to_target", "x", ours, relative="ratio", **also)
    assert ratio.values == pytest.approx([1 / 3, 1]) and ratio.value == pytest.approx(2 / 3)
    assert ratio.base_values == [3, 2] and ratio.unit == "ratio" and ratio.number.base == "fedavg"
    assert make("rounds_to_target", "x", ours, relative="speedup", **also).values == pytest.approx([3, 1])
    gap = make("rounds_to_target", "rounds", ours, relative="difference", **also)
    assert gap.values == [-2, 0] and gap.unit == "rounds"
    never = {**also, "base_runs": [base[0], run("b3", [0.1, 0.1, 0.1])]}
    late = make("rounds_to_target", "x", ours, relative="ratio", **never)
    assert (late.status, late.value, late.reached) == ("not_reached", None, "1/2")


def test_means_over_splits_and_gains_over_a_base_row(run, tmp_path):
    """Two seeds, two splits each: means 0.5 and 0.7; the base row's 0.4 and 0.5."""
    a, b = (
        [run(f"{row}{final}", [0, 0, final]) for final in finals]
        for row, finals in (("a", [0.4, 0.6, 0.61, 0.79]), ("b", [0.3, 0.5, 0.4, 0.6]))
    )
    mean = make("mean_test_accuracy", "percent", a, seeds=[1, 2])
    assert mean.values == pytest.approx([0.5, 0.7]) and mean.n == 2 and mean.best == pytest.approx([0.5, 0.7])
    gain = make("mean_test_accuracy_gain", "pp", a, seeds=[1, 2], base_runs=b)
    assert gain.values == pytest.approx([0.1, 0.2]) and gain.number.relative == "difference"
    one_short = make("mean_test_accuracy", "percent", [*a[:3], str(tmp_path / "absent")], seeds=[1, 2])
    assert one_short.status == "missing" and one_short.n == 1


def test_times_come_from_the_timing_run_and_rounds_from_each_seed(run, tmp_path):
    runs, path = [run("a", SECOND), run("b", THIRD)], timing(tmp_path / "t.json", 3.0, 5.0)
    assert make("seconds_per_round", "s", runs, timing=path).values == [5.0]
    assert make("total_seconds", "s", runs, timing=path, target=0.5).values == [10.0, 15.0]
    assert make("compute_time_to_target", "minutes", runs, timing=path, target=0.5).values == [6.0, 9.0]
    busy = timing(tmp_path / "u.json", 1.5, 10.0, warning="the machine was busy")
    base = {"base_runs": runs, "base_timing": busy, "relative": "ratio"}
    cell = make("compute_time_to_target", "x", runs, timing=path, target=0.5, **base)
    assert (cell.values, cell.warnings) == ([2.0, 2.0], [f"{busy}: the machine was busy"])
    assert make("seconds_per_round", "x", runs, timing=path, **{**base, "relative": "speedup"}).values == [2.0]
    absent = make("total_seconds", "x", runs, timing=str(tmp_path / "absent.json"), target=0.5, **base)
    assert (absent.status, absent.value) == ("missing", None) and "flatfed time" in absent.problems[0]


def test_analyses_are_read_per_run_and_missing_where_they_are_not_made(run, tmp_path):
    runs = [run(name, [0.1, 0.2, 0.3]) for name in ("x", "y")]
    paths = [made.written(tmp_path / f"{top}.json", made.hessian(top, 100.0)) for top in (10.0, 14.0)]
    top = make("hessian_top_eigenvalue", "number", runs, analyses=paths)
    assert top.value == 12.0
    assert top.error == pytest.approx(0.02 / 10)
    assert make("hessian_scaled_trace", "number", runs, analyses=paths).value == 10.0
    absent = make("hessian_trace", "number", runs, analyses=[paths[0], str(tmp_path / "c")])
    assert absent.status == "missing" and absent.values == [100.0, None] and absent.error is None
    made.unscaled(paths[0])
    converted = make("hessian_trace", "number", runs[:1], analyses=paths[:1])
    assert (converted.value, converted.error) == (100.0, pytest.approx(3.0 / 100))
    scaled = make("hessian_scaled_trace", "number", runs[:1], analyses=paths[:1])
    assert scaled.problems == [f"{paths[0]} is without hessian_scaled_trace; delete it to rebuild it"]


def clients(run: str, worst_tenth: float, model: bytes = b"weights") -> None:
    """Write the clients.csv of the ``model`` of a run, whose mean is 0.9."""
    lines = [(name, 20, 50, value) for name, value in (("mean", 0.9), ("worst_tenth", worst_tenth))]
    client_accuracies.write(Path(run, "clients.csv"), lines, hashlib.sha256(model).hexdigest())


def test_the_worst_tenth_of_the_clients_is_that_of_the_model_of_the_run(run, tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"weights")
    x, y = runs = [run(name, [0.1, 0.2, 0.3]) for name in ("x", "y")]
    clients(x, 0.2)
    absent = make("worst_tenth_accuracy", "percent", runs)
    assert (absent.status, absent.values) == ("missing", [0.2, None])
    assert absent.problems == [f"{y}/clients.csv does not exist"]
    clients(y, 0.4)
    cell = make("worst_tenth_accuracy", "percent", runs)
    assert cell.value == pytest.approx(0.3) and cell.spread == pytest.approx(0.2 / 2**0.5)
    clients(y, 0.4, b"other weights")
    with pytest.raises(DataError, match=r"y/clients\.csv: was made with another model \(SHA-256 .*; rebuild it: "):
        make("worst_tenth_accuracy", "percent", runs)
    Path(y, "clients.csv").write_text("client,train_images,test_images,accuracy\nworst_tenth,20,50,0.4\n")
    with pytest.raises(DataError, match=r"y/clients\.csv: not a table of clients with client, .*, model_sha256; "):
        make("worst_tenth_accuracy", "percent", runs)


def test_every_metric_can_be_printed():
    stored = {unit.stored for unit in UNITS.values()}
    assert {unit_of(name, relative) for name in METRICS for relative in (None, *RELATIVES)} <= stored


def test_decimals_of_the_paper_and_signs():
    """A number without decimals of its own takes the paper's; a printed zero has no minus; small numbers two digits."""
    assert written(123456.0, None, "GB_params") == "0.00012" and written(0.4, 0.01, "minutes") == "0.0067 ± 0.0002"
    assert (written(1234.5, 0.3, "number"), written(13.0, 0.5, "number")) == ("1234 ± 0.3", "13.00 ± 0.50")
    assert written(0.00004, 0.00002, "percent") == "0.00 ± 0.00" and written(None, None, "percent") == ""
    assert written(0.99995, None, "number", 5) == "0.99995" and written(0.99995, None, "number") == "1"
    assert signed(-0.25, "number", 2) == "−0.25" and written(0.5, None, "percent", 0) == "50.00"
    assert signed(-0.00004, "percent") == "+0.00" and signed(-0.0123, "pp") == "−1.23"


def test_every_printed_number_is_written_as_it_was_printed():
    """From the reference files through the stored units and back: 1,588 numbers, digit by digit."""
    count = 0
    for path in REFERENCE.glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in filter(lambda row: row["value"], csv.DictReader(file)):
                unit, decimals = row["unit"] or "number", len(row["value"].partition(".")[2])
                stored = [float(text) / UNITS[unit].factor if text else None for text in (row["value"], row["std"])]
                shown = as_printed(*stored, unit, decimals)
                assert shown == row["value"] + (f" ± {row['std']}" if row["std"] else ""), (path.name, row)
                count += 1
    assert count == 1588 + 286, "the papers' own, and what others print of the same cells"


def test_the_manual_lists_all_metrics():
    listed = re.search(r"^Metrics: (.*?)\.$", (ROOT / "config/README.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(METRICS)
