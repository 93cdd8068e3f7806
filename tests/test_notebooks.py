"""The two functions of the package for notebooks."""

from __future__ import annotations

import csv
import shutil
import statistics

import pandas as pd
import pytest

import flatfed
from flatfed.errors import DataError
from small_results import flatfed as command


def test_the_numbers_of_a_table_are_those_of_its_csv(small_project):
    """Mean, deviation and number of the seeds of each cell, by pandas."""
    command("table", "costs", "--scale", "paper", "--out", "made")
    with open("made/costs.csv", newline="") as file:
        lines = {(line["column"], line["row"]): line for line in csv.DictReader(file)}
    numbers = flatfed.numbers("costs", "paper")
    cells = numbers.groupby(["column", "row"])
    assert set(cells.groups) == set(lines) and len(lines) > 8
    complete = 0
    for key, cell in cells:
        line = lines[key]
        seeds = [float(part) for part in line["values"].split(";") if part]
        assert cell["value"].dropna().tolist() == pytest.approx(seeds, rel=1e-11)
        if line["status"] == "ok" and len(seeds) > 1:
            complete += 1
            assert (cell["status"] == "ok").all()
            assert cell["value"].mean() == pytest.approx(float(line["value"]), rel=1e-11)
            assert cell["value"].std() == pytest.approx(float(line["spread"]), rel=1e-11, abs=1e-15)
    assert complete > 2
    late = numbers[numbers["status"] == "not_reached"]
    assert len(late) and late["value"].isna().all() and not late["reached"].any()


def test_the_curves_of_a_table_are_the_lines_of_its_runs(small_project):
    curves = flatfed.curves("accuracy", "paper")
    for ids, lines in curves.groupby(["protocol", "split", "algorithm", "seed"]):
        protocol, split, algorithm, seed = ids
        file = f"results/paper/runs/{protocol}/{split}/{algorithm}/seed{seed}/metrics.csv"
        own = pd.read_csv(file)
        assert lines["round"].tolist() == own["round"].tolist()
        assert lines["test_accuracy"].tolist() == own["test_accuracy"].tolist()
    of_row = curves[(curves.protocol == "small") & (curves.split == "dir0.6") & (curves.algorithm == "fedavg")]
    final = of_row.groupby("seed")["test_accuracy"].last()
    numbers = flatfed.numbers("accuracy", "paper")
    values = numbers[(numbers.column == "dir0.6") & (numbers.row == "fedavg")].set_index("seed")["value"]
    assert final.to_dict() == values.to_dict() and statistics.fmean(final) > 0


def test_a_folder_without_finished_runs(small_project, tmp_path, monkeypatch):
    shutil.copytree("config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"accuracy: .* has no finished run of it at paper scale"):
        flatfed.curves("accuracy", "paper")
