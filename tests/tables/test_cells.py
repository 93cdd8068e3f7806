"""Cells: values worked out by hand from runs of a few rounds."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import made
from flatfed.engine import versions
from flatfed.errors import DataError
from flatfed.plan.number import Number
from flatfed.tables import cells
from flatfed.tables import notes as notes_of_table

COLUMNS = (
    "round,learning_rate,train_loss,test_loss,test_accuracy,clients,consistency,download_bytes,upload_bytes,seconds"
)


def make_run(
    folder: Path, accuracies: list, every: int = 1, done: int | None = None, diverged: int | None = None
) -> str:
    """Write a run folder whose rounds ``every``, 2 ``every``, ... have the given test accuracies."""
    same = {name: [1] * len(accuracies) for name in COLUMNS.split(",")}
    rounds = [every * (i + 1) for i in range(len(accuracies))]
    record = {"diverged_at": diverged, **({} if done is None else {"rounds_done": done})}
    return made.run(folder, {**same, "round": rounds, "test_accuracy": accuracies}, **record)


def specify(runs: list[str], **changes) -> list[Number]:
    """Return a cell specification for runs of four rounds."""
    spec = {
        "table": "fedsmoo2023_T1",
        "column": "dir0.6-100",
        "row": "fedsmoo",
        "scale": "paper",
        "metric": "test_accuracy",
        "unit": "percent",
        "target": None,
        "window": 1,
        "rounds": 4,
        "seeds": list(range(1, len(runs) + 1)),
        "runs": runs,
        "paper": {"value": 80.0, "spread": 0.14, "note": "printed OUR"},
    }
    return made.cell_numbers(**{**spec, **changes})


@pytest.fixture
def two(tmp_path):
    """Two runs of four rounds: they end at 0.80 and 0.84 and were better before."""
    return [make_run(tmp_path / "a", [0.5, 0.7, 0.9, 0.8]), make_run(tmp_path / "b", [0.4, 0.6, 0.72, 0.84])]


def test_final_round_mean_spread_and_difference(two, tmp_path):
    cell = cells.summarise(specify(two))
    assert cell.status == "ok" and cell.unit == "fraction" and cell.n == 2
    assert cell.value == pytest.approx(0.82)
    assert cell.spread == pytest.approx(0.04 / math.sqrt(2))  # (0.04 / 2)^2 * 2 / (2 - 1), rooted
    assert cell.values == [0.8, 0.84]
    assert cell.best == [0.9, 0.84], "the best round is an extra, the final one is the value"
    assert cell.paper_value == pytest.approx(0.8) and cell.paper_spread == pytest.approx(0.0014)
    assert cell.difference == pytest.approx(0.02)


def test_window_is_the_mean_of_the_last_evaluated_rounds(two, tmp_path):
    cell = cells.summarise(specify(two, window=2))
    assert cell.values == pytest.approx([0.85, 0.78])


def test_one_seed_has_no_spread(two, tmp_path):
    cell = cells.summarise(specify(two[:1]))
    assert cell.value == 0.8 and cell.spread is None and cell.n == 1


def test_preview_takes_no_difference_but_keeps_the_printed_number(two, tmp_path):
    cell = cells.summarise(specify(two, scale="preview"))
    assert cell.difference is None and cell.paper_value == pytest.approx(0.8)


def rounds_spec(runs, target, **changes):
    paper = {"value": None, "spread": None, "note": "not reached; flag:B1"}
    return specify(runs, metric="rounds_to_target", unit="rounds", target=target, **{"paper": paper, **changes})


def test_rounds_to_target_is_the_first_crossing_counted_from_one(two, tmp_path):
    cell = cells.summarise(rounds_spec(two, 0.7))
    assert cell.values == [2, 3] and cell.value == 2.5 and cell.reached == "2/2"
    assert cell.spread == pytest.approx(math.sqrt(0.5)) and cell.unit == "rounds"
    assert cell.difference is None, "the paper prints no number"


def test_rounds_to_target_reports_rounds_not_lines(tmp_path):
    run = make_run(tmp_path / "a", [0.5, 0.75], every=2)
    assert cells.summarise(rounds_spec([run], 0.75)).value == 4


def test_target_reached_by_one_seed_of_two_has_no_value(two, tmp_path):
    cell = cells.summarise(rounds_spec(two, 0.88))
    assert (cell.status, cell.value, cell.reached) == ("not_reached", None, "1/2")
    assert cell.values == [3, None] and cell.spread is None


def test_any_diverged_run_makes_the_cell_diverged(two, tmp_path):
    broken = make_run(tmp_path / "c", [0.5, 0.1], done=2, diverged=3)
    cell = cells.summarise(specify([*two, broken]))
    assert (cell.status, cell.value, cell.n) == ("diverged", None, 3)
    assert cell.values == [0.8, 0.84, None] and "round 3" in cell.problems[0]


def test_non_finite_numbers_count_as_divergence(tmp_path):
    run = make_run(tmp_path / "a", [0.5, 0.6, 0.7, "nan"])
    cell = cells.summarise(specify([run]))
    assert cell.status == "diverged" and cell.best == [0.7]


def test_a_run_that_diverged_before_its_first_line_is_diverged(tmp_path):
    """Its metrics.csv has a header alone, without the columns that only evaluated rounds have."""
    run = made.run(tmp_path / "run", {"round": [], "test_accuracy": []}, diverged_at=1)
    cell = cells.summarise(specify([run], metric="train_accuracy"))
    assert (cell.status, cell.value, cell.problems) == ("diverged", None, [f"{run} diverged at once"])


@pytest.mark.parametrize("damage", ["folder", "run.json", "metrics.csv", "unfinished"])
def test_absent_or_unfinished_runs_make_the_cell_missing(two, tmp_path, damage):
    if damage == "folder":
        runs = [two[0], str(tmp_path / "nowhere")]
    elif damage == "unfinished":
        runs = [two[0], make_run(tmp_path / "c", [0.5, 0.6])]
    else:
        (Path(two[1]) / damage).unlink()
        runs = two
    cell = cells.summarise(specify(runs))
    assert (cell.status, cell.value, cell.n) == ("missing", None, 1)
    assert cell.values == [0.8, None]
    assert len(cell.problems) == 1 and str(runs[1]) in cell.problems[0]


def test_a_cell_without_runs_is_not_applicable(tmp_path):
    cell = cells.summarise(specify([], paper=None))
    assert (cell.status, cell.value, cell.paper_value) == ("not_applicable", None, None)


def test_damaged_metrics_name_file_line_and_column(two, tmp_path):
    path = Path(two[0]) / "metrics.csv"
    path.write_text(path.read_text().replace("0.9", "O.9"))
    made.recorded(two[0])
    with pytest.raises(DataError, match=r"metrics\.csv: line 4: test_accuracy: 'O\.9' is not a number"):
        cells.summarise(specify(two))


def test_damaged_run_json_is_named(two, tmp_path):
    (Path(two[0]) / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json: not the record of a run"):
        cells.summarise(specify(two))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"dataset_digest": "1" * 64}, "seed 2: the run and its base run have different data; rerun both"),
        ({"partition_digest": "1" * 64}, "seed 2: the run and its base run have different partitions; rerun both"),
    ],
)
def test_a_run_and_its_base_of_other_data_do_not_pair(two, tmp_path, changed, said):
    lines = {name: [1] * 4 for name in COLUMNS.split(",")} | {"round": [1, 2, 3, 4], "test_accuracy": [0.5] * 4}
    base = [made.run(tmp_path / "c", lines), made.run(tmp_path / "d", lines, **changed)]
    spec = specify(two, unit="pp", relative="difference", base="fedavg", paper=None, base_runs=base)
    if said is None:
        assert cells.summarise(spec).values == pytest.approx([0.3, 0.34])
        return
    with pytest.raises(DataError, match=re.escape(f"cell fedsmoo2023_T1/dir0.6-100/fedsmoo: {said}")):
        cells.summarise(spec)


#: Runs have these components.
COMPONENTS = {
    **{"rounds": 4, "update": {"name": "fedavg", "params": {}}, "model": {"name": "cnn"}},
    "partition": {"scheme": "dirichlet"},
}
NOW = {"engine": 1, "algorithm": 1, "model": 1, "partition": 1}


def seeds_of(folder: Path, *records: dict) -> list[str]:
    """Write a run of four rounds per record, of consecutive seeds."""
    runs = []
    for seed, record in enumerate(records, start=1):
        columns = {"round": [1, 2, 3, 4], "test_accuracy": [0.1, 0.2, 0.3, 0.4 * seed]}
        runs.append(made.run(folder / f"p/s/a/seed{seed}", columns, settings=COMPONENTS, **record))
    return runs


def test_a_mean_over_different_code_is_refused(tmp_path):
    """As after an edit of an algorithm between the trainings of two seeds."""
    runs = seeds_of(tmp_path, {"versions": NOW}, {"versions": {**NOW, "algorithm": "0a1b" * 16}})
    words = r"p/s/a/seed1 \(the present code\) and p/s/a/seed2 \(algorithm is version 0a1b0a1b0a1b, now 1\); train them"
    with pytest.raises(DataError, match=f"cell .*: {words} .* flatfed import --replace --other-code FOLDER"):
        cells.summarise(specify(runs))
    assert cells.summarise(specify(runs[1:])).n == 1


@pytest.mark.parametrize(
    ("records", "notes"),
    [
        ([{"versions": NOW}] * 2, {}),
        ([{}, {"versions": NOW}], {}),
        ([{"versions": {**NOW, "engine": 0}}] * 2, dict.fromkeys("12", "engine is version 0, now 1")),
        (
            [{"versions": NOW}, {"versions": {**NOW, "engine": 0}, "imported": "other code"}],
            {"2": "engine is version 0, now 1"},
        ),
    ],
    ids=["present", "unknown", "older", "imported"],
)
def test_runs_of_other_code_are_noted(tmp_path, records, notes):
    cell = cells.summarise(specify(seeds_of(tmp_path, *records)))
    assert cell.outdated == {f"p/s/a/seed{seed}": text for seed, text in notes.items()}
    assert cell.value == pytest.approx(0.6) and len(cell.warnings) == len(notes)
    texts = notes_of_table.outdated([cell])
    assert texts == [] if not notes else f"{len(notes)} run" in texts[0] and "engine is version 0, now 1" in texts[0]


def test_a_present_timing_hides_no_note_on_the_run(tmp_path):
    runs = seeds_of(tmp_path, {"versions": {**NOW, "engine": 0}})
    settings = made.requested(runs[0]).config.as_json()
    timing = made.timing(tmp_path / "timing.json", settings, 2.0, versions=NOW)
    spec = specify(runs, metric="compute_time_to_target", unit="s", target=0.3, timing=timing, paper=None)
    assert cells.summarise(spec).outdated == {"p/s/a/seed1": "engine is version 0, now 1"}


def test_a_component_that_is_absent_here_is_noted(tmp_path):
    config = made.config({**COMPONENTS, "update": {"name": "fedgone"}})
    assert versions.changes(config, NOW).startswith("versions unknown here (")
    assert versions.changes(config, None) == ""
