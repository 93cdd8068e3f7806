"""``flatfed plan --power``: seeds that tell a difference, by the spread of cells that have been made or as given."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flatfed import cli, forms
from flatfed.commands import configuration, plan_power
from flatfed.papers import significance
from flatfed.specs import cell as cell_files
from flatfed.specs.table import TableSpec
from made import cell

TABLE, COLUMN = "fedsmoo2023_T1", "cifar10-path3-100"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the cells of one column of FedSMOO's Table 1 at preview scale: six seeds, rows 0.01 apart."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(
        f"scale: preview\ntables:\n  - {{table: {TABLE}, columns: [{COLUMN}]}}\nfigures: []\n"
    )
    experiment = configuration.load(["config.yaml"])
    noise = np.random.default_rng(2).normal(0, 0.01, (8, 6))
    for place, one in enumerate(experiment.cells("preview", TABLE, [COLUMN])):
        ids = {"table": TABLE, "column": COLUMN, "row": one.spec.row, "scale": "preview"}
        Path(one.path).parent.mkdir(parents=True, exist_ok=True)
        cell_files.write(one.path, replace(cell((0.6 + 0.01 * place + noise[place]).tolist()), **ids))
    return noise


def power(*arguments):
    return cli.main(["plan", "--config", "config.yaml", "--power", *arguments])


def test_the_spread_of_pairs_is_that_of_the_cells(here, capsys):
    pairs = [np.std(a - b, ddof=1) for place, a in enumerate(here) for b in here[place + 1 :]]
    assert power("1") == 0
    said = capsys.readouterr().out
    assert f"{TABLE}, preview scale: paired differences, mean over 1 column, spread over 6 seeds by" in said
    assert (
        f"by {100 * np.median(pairs):.2f} points (median of 28; {100 * min(pairs):.2f} to {100 * max(pairs):.2f})"
        in said
    )
    assert "rough estimate" not in said and "Holm, of 28" in said
    seeds = significance.seeds_for(0.01 / np.median(pairs), 0.8)
    assert f"{seeds} seeds" in said


def test_a_spread_that_is_given_needs_no_cells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plan", "--power", "2", "--spread", "1"]) == 0
    said = capsys.readouterr().out
    assert "a difference of 2 points is 2 spreads" in said and "Holm" not in said
    shown = said.splitlines()[-1]
    assert f"{100 * significance.power(6, 2.0):.0f}%" in shown and shown.endswith("6 seeds")


def test_columns_are_averaged_before_the_spread_is_taken(tmp_path):
    """Two columns whose noise is opposite: their mean has none."""
    noise = [0.01, -0.01, 0.02, -0.02]
    rows, columns = ("a", "b"), ("one", "two")
    for column, sign in zip(columns, (1, -1), strict=True):
        (tmp_path / column).mkdir()
        for row in rows:
            values = [0.5 + sign * each * (row == "a") for each in noise]
            ids = {"column": column, "row": row, "scale": "preview"}
            cell_files.write(tmp_path / column / f"{row}.json", replace(cell(values), **ids))
    about = {"table": "t", "scale": "preview", "title": "T", "metric": "Test accuracy", "unit": "percent"}
    each = {"rows": [{"id": r, "label": r} for r in rows], "columns": [{"id": c, "headers": [c]} for c in columns]}
    spec = forms.read(TableSpec, {**about, **each, "cells": str(tmp_path)}, "--spec")
    found = plan_power.measured(spec)
    assert found.of == [pytest.approx(0.0, abs=1e-15)] and (found.seeds, found.columns, found.tests) == (4, 2, 1)
    assert "rough estimate" in " ".join(plan_power.lines(1.0, {"t": found}, None))


def test_what_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plan", "--power", "0.5"]) == 2
    assert "no table that was asked for has cells of two seeds or more" in capsys.readouterr().err
    assert cli.main(["plan", "--power", "1", "--json", "x.json"]) == 2
    assert "--json means nothing with --power" in capsys.readouterr().err
    for wrong in (["--power", "0"], ["--spread", "1"], ["--power", "1", "--spread", "0"]):
        assert cli.main(["plan", *wrong]) == 2
        assert "--power POINTS is wanted" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["plan", "--power", "much"])
    assert "a number of percentage points from 0 to 100" in capsys.readouterr().err


def test_none_can_be_told_by_too_few_seeds():
    assert significance.power(5, math.inf) == 0.0
