"""The choice among points of a grid: the best on the validation parts, the first of equals, never one that diverged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.runs.tuning_choice import TuningChoice
from flatfed.tables import search


def tried(folder: Path, rate: float, accuracies: list[float], **changes) -> dict:
    """Write a run that tried a learning rate; return its point of the specification."""
    path = folder / f"learning_rate={rate:g}"
    columns = {"round": list(range(1, len(accuracies) + 1)), "validation_accuracy": accuracies}
    settings = {"rounds": 3, "learning_rate": rate}
    made.run(path, columns, settings=settings, **changes)
    digest = digest_json(made.config({**made.ids(path), **settings}).as_json())
    return {"values": {"learning_rate": rate}, "run": str(path), "description_digest": digest}


def spec(points: list[dict], window: int = 1) -> dict:
    grid = {"learning_rate": [point["values"]["learning_rate"] for point in points]}
    asked = {"scale": "preview", "protocol": "p", "split": "s", "row": "fedsam", "seed": 4, "validation": 0.1}
    asked["accuracy"] = "validation_accuracy"
    return {**asked, "grid": grid, "window": window, "points": points}


def asked(spec: dict) -> TuningChoice:
    return TuningChoice.of_json(spec, "a choice")


def make(spec: dict, out: Path) -> None:
    """Choose among the points of ``spec``, whose runs are the requested ones if they have the point's learning rate."""
    runs = [made.requested(point["run"]) for point in spec["points"]]
    rates = [point["values"]["learning_rate"] for point in spec["points"]]
    requested = [
        replace(run, config=run.config.changed(learning_rate=rate)) for run, rate in zip(runs, rates, strict=True)
    ]
    search.make(asked(spec), requested, out)


def chosen(folder: Path, points: list[dict], window: int = 1) -> dict:
    make(spec(points, window), folder / "choice.json")
    return json.loads((folder / "choice.json").read_text())


def test_the_best_final_round_is_chosen_and_all_is_recorded(tmp_path, capsys):
    points = [tried(tmp_path, 0.1, [0.2, 0.9, 0.5]), tried(tmp_path, 0.03, [0.1, 0.2, 0.6])]
    found = chosen(tmp_path, points)
    assert found["chosen"] == {"learning_rate": 0.03}, "0.9 in the second round is not the final one"
    assert [point["accuracy"] for point in found["points"]] == [0.5, 0.6]
    assert {key: found[key] for key in ("seed", "validation", "window")} == {"seed": 4, "validation": 0.1, "window": 1}
    assert found["grid"] == {"learning_rate": [0.1, 0.03]}
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Chosen for fedsam on s of p: learning_rate 0.03, validation accuracy 60.00 %"
    )


def test_a_window_takes_the_mean_of_the_last_rounds(tmp_path):
    points = [tried(tmp_path, 0.1, [0.2, 0.9, 0.5]), tried(tmp_path, 0.03, [0.1, 0.2, 0.6])]
    found = chosen(tmp_path, points, window=2)
    assert found["chosen"] == {"learning_rate": 0.1}
    assert [point["accuracy"] for point in found["points"]] == pytest.approx([0.7, 0.4])


def test_the_accuracy_that_is_asked_for_is_read(tmp_path):
    points = [tried(tmp_path, 0.1, [0.2, 0.9, 0.7]), tried(tmp_path, 0.03, [0.1, 0.2, 0.6])]
    for point, mean in zip(points, (0.3, 0.5), strict=True):
        path = Path(point["run"]) / "metrics.csv"
        head, *rest = path.read_text().splitlines()
        path.write_text("\n".join([f"{head},client_validation_accuracy", *(f"{line},{mean}" for line in rest)]) + "\n")
        made.recorded(point["run"])
    make({**spec(points), "accuracy": "client_validation_accuracy"}, tmp_path / "choice.json")
    found = json.loads((tmp_path / "choice.json").read_text())
    assert found["chosen"] == {"learning_rate": 0.03} and [point["accuracy"] for point in found["points"]] == [0.3, 0.5]


def test_of_equal_points_the_first_in_the_grid_is_chosen(tmp_path):
    points = [tried(tmp_path, rate, [0.1, 0.2, last]) for rate, last in ((0.3, 0.5), (0.1, 0.6), (0.03, 0.6))]
    assert chosen(tmp_path, points)["chosen"] == {"learning_rate": 0.1}


def test_a_point_that_diverged_loses(tmp_path):
    wild = tried(tmp_path, 0.3, [0.99, 0.99], diverged_at=3, rounds_done=2)
    at_once = tried(tmp_path, 0.2, [], diverged_at=1, rounds_done=0)
    found = chosen(tmp_path, [wild, at_once, tried(tmp_path, 0.1, [0.1, 0.1, 0.0])])
    assert found["chosen"] == {"learning_rate": 0.1}
    assert [(point.get("accuracy"), point.get("diverged_at")) for point in found["points"]] == [
        (None, 3),
        (None, 1),
        (0.0, None),
    ]


def test_where_nothing_can_be_chosen_nothing_is_written(tmp_path):
    good = tried(tmp_path, 0.1, [0.1, 0.2, 0.3])
    wild = tried(tmp_path, 0.3, [0.5], diverged_at=2, rounds_done=1)
    for points, message in (
        ([wild], "fedsam on s of p: all 1 points of the grid diverged"),
        ([good, tried(tmp_path, 0.03, [0.1, 0.2])], "has done 2 of 3 rounds"),
        ([good, {**good, "run": str(tmp_path / "nowhere")}], "nowhere: not a finished run: it has no run.json"),
        ([{**good, "values": {"learning_rate": 0.2}}], "not the requested run: learning_rate is 0.1, here 0.2"),
    ):
        with pytest.raises(DataError, match=message):
            chosen(tmp_path, points)
    assert not (tmp_path / "choice.json").exists()


@pytest.mark.parametrize("key", ["dataset_digest", "partition_digest"])
def test_points_of_different_data_are_not_compared(tmp_path, key):
    points = [tried(tmp_path, 0.1, [0.1, 0.2, 0.3]), tried(tmp_path, 0.2, [0.1, 0.2, 0.4], **{key: "f" * 64})]
    with pytest.raises(DataError, match=f"trained on different data .{key} 000000000000, ffffffffffff"):
        chosen(tmp_path, points)


def test_a_run_of_other_code_is_noted(tmp_path, capsys):
    point = tried(tmp_path, 0.1, [0.2, 0.9, 0.5], versions={"engine": 0})
    chosen(tmp_path, [point])
    assert f"{point['run']}: engine is version 0, now 1\n" in capsys.readouterr().out
