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


@pytest.fixture
def tried(tmp_path):
    """A function that writes a run that tried a learning rate; returns its point of the specification."""

    def write(rate: float, accuracies: list[float], client: float = 0.5, **record) -> dict:
        path = tmp_path / f"learning_rate={rate:g}"
        columns = {"round": list(range(1, len(accuracies) + 1)), "validation_accuracy": accuracies}
        columns["client_validation_accuracy"] = [client] * len(accuracies)
        settings = {"rounds": 3, "learning_rate": rate}
        made.run(path, columns, settings=settings, **record)
        digest = digest_json(made.config({**made.ids(path), **settings}).as_json())
        return {"values": {"learning_rate": rate}, "run": str(path), "description_digest": digest}

    return write


def choose(*points: dict, window: int = 1, accuracy: str = "validation_accuracy") -> dict:
    """Choose among ``points``, whose runs are the requested ones if they have the point's learning rate."""
    rates = [point["values"]["learning_rate"] for point in points]
    about = {"scale": "preview", "protocol": "p", "split": "s", "row": "fedsam", "seed": 4, "validation": 0.1}
    about |= {"accuracy": accuracy, "grid": {"learning_rate": rates}, "window": window, "points": list(points)}
    requested = []
    for point, rate in zip(points, rates, strict=True):
        run = made.requested(point["run"])
        requested.append(replace(run, config=run.config.changed(learning_rate=rate)))
    out = Path(points[0]["run"]).with_name("choice.json")
    search.make(TuningChoice.of_json(about, "a choice"), requested, out)
    return json.loads(out.read_text())


def test_the_best_final_round_is_chosen_and_all_is_recorded(tried, capsys):
    points = [tried(0.1, [0.2, 0.9, 0.5], client=0.6), tried(0.03, [0.1, 0.2, 0.6])]
    choice = choose(*points)
    assert choice["chosen"] == {"learning_rate": 0.03}, "0.9 in the second round is not the final one"
    assert [point["accuracy"] for point in choice["points"]] == [0.5, 0.6]
    assert capsys.readouterr().out.splitlines()[-1].endswith("learning_rate 0.03, validation accuracy 60.00 %")
    choice = choose(*points, window=2)
    assert choice["chosen"] == {"learning_rate": 0.1}, "by the mean of the last rounds"
    assert [point["accuracy"] for point in choice["points"]] == pytest.approx([0.7, 0.4])
    choice = choose(*points, accuracy="client_validation_accuracy")
    assert [point["accuracy"] for point in choice["points"]] == [0.6, 0.5] and choice["chosen"]["learning_rate"] == 0.1


def test_of_equal_points_the_first_in_the_grid_is_chosen(tried):
    points = [tried(rate, [0.1, 0.2, last]) for rate, last in ((0.3, 0.5), (0.1, 0.6), (0.03, 0.6))]
    assert choose(*points)["chosen"] == {"learning_rate": 0.1}


def test_a_point_that_diverged_loses(tried):
    wild = tried(0.3, [0.99, 0.99], diverged_at=3, rounds_done=2)
    at_once = tried(0.2, [], diverged_at=1, rounds_done=0)
    choice = choose(wild, at_once, tried(0.1, [0.1, 0.1, 0.0]))
    assert choice["chosen"] == {"learning_rate": 0.1}
    numbers = [(point.get("accuracy"), point.get("diverged_at")) for point in choice["points"]]
    assert numbers == [(None, 3), (None, 1), (0.0, None)]


def test_where_nothing_can_be_chosen_nothing_is_written(tried, tmp_path):
    good = tried(0.1, [0.1, 0.2, 0.3])
    for points, message in (
        ([tried(0.3, [0.5], diverged_at=2, rounds_done=1)], "fedsam on s of p: all 1 points of the grid diverged"),
        ([good, tried(0.03, [0.1, 0.2])], "has done 2 of 3 rounds"),
        ([{**good, "values": {"learning_rate": 0.2}}], "not the requested run: learning_rate is 0.1, here 0.2"),
        ([good, tried(0.2, [0.1, 0.2, 0.4], dataset_digest="f" * 64)], "different data .dataset_digest 0{12}, ffffff"),
    ):
        with pytest.raises(DataError, match=message):
            choose(*points)
    assert not (tmp_path / "choice.json").exists()


def test_a_run_of_other_code_is_noted(tried, capsys):
    point = tried(0.1, [0.2, 0.9, 0.5], versions={"engine": 0})
    choose(point)
    assert f"{point['run']}: engine is version 0, now 1\n" in capsys.readouterr().out
