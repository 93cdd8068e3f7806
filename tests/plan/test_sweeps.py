"""Sweeps of hyper-parameters: every point has one value of its own, whatever is tuned, and none stands there twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tuning import CIFAR10, SPLIT, load, record

import made
from flatfed.errors import ConfigError
from flatfed.plan import Requested, at_scale
from repository import ROOT

RATES, ALPHA = {"learning_rate": 10**-1.5}, {"learning_rate": 10**-1.5, "alpha": 0.01}


def tuned(folder: Path, root: Path = ROOT):
    """Return the experiment with a choice for every row of FedSAM's Figure 3, other values than the protocol's."""
    mine = load(root, folder, tune=True)
    for row in ("fedavg", "scaffold", "fedrobust", "fedsam"):
        record(mine, ("preview", CIFAR10, SPLIT, row), RATES)
    for row in ("fedcm", "mimelite", "mofedsam"):
        record(mine, ("preview", CIFAR10, SPLIT, row), ALPHA)
    return mine


def edited(folder: Path, figure: str, change) -> Path:
    """Copy config/ to ``folder`` and apply ``change`` to a figure."""
    return made.edited(folder, f"figures/{figure}.yaml", change)


def points(figure: dict, panel: int) -> dict[str, list[float]]:
    rows = dict.fromkeys(mark.algorithm for mark in figure.panels[panel].marks)
    return {row: [mark.x for mark in figure.panels[panel].marks if mark.algorithm == row] for row in rows}


@pytest.mark.parametrize("tune", [False, True])
def test_points_are_the_same_values_whatever_was_chosen(tmp_path, tune):
    mine = tuned(tmp_path) if tune else load()
    figure = at_scale.figure(mine, "preview", "fedsam2022_F3")
    assert points(figure, 3) == {row: [0.1, 0.5, 1.0] for row in ("fedcm", "mimelite", "mofedsam")}
    used = figure.runs.values()
    rates = {run.config.learning_rate for run in used}
    assert rates == ({RATES["learning_rate"]} if tune else {0.1}), "what is not swept is as it was chosen"
    for at in figure.panels[3].marks:
        assert {run.config.update.params["alpha"] for run in at.runs} == {at.x}


def test_a_point_that_trains_what_the_plain_row_does_is_that_run(tmp_path):
    """alpha = 0.1 is the protocol's, so that nothing is trained twice; where 0.01 was chosen, it is another run."""
    for mine, folder in ((load(), "fedcm"), (tuned(tmp_path), "fedcm~beta0.1")):
        (first, *_) = at_scale.figure(mine, "preview", "fedsam2022_F3").panels[3].marks
        assert first.runs[0].algorithm == folder


def test_a_swept_key_that_is_tuned_is_given_by_every_point(tmp_path):
    def change(figure):
        figure["panels"][3]["points"][1] = {}

    root = edited(tmp_path, "fedsam2022_F3", change)
    with pytest.raises(
        ConfigError, match=r"fedcm in fedsam-cifar10: alpha is swept, but `tune:` would choose alpha; .*variant"
    ):
        at_scale.figure(load(root), "preview", "fedsam2022_F3")


def test_two_points_at_one_value_are_refused(tmp_path):
    def change(figure):
        figure["panels"][2]["points"] = [{"variant": "rho0.1"}, {}, {"variant": "rho0.1"}]

    root = edited(tmp_path, "fedsam2022_F3", change)
    words = r"rho of fedsam~rho0\.1 in fedsam-cifar10 \(preview scale\): two points of fedsam have 0\.1"
    with pytest.raises(ConfigError, match=words):
        at_scale.figure(load(root), "preview", "fedsam2022_F3")


def test_runs_of_different_values_in_one_point_are_refused(tmp_path):
    def change(figure):
        panel = figure["panels"][0]
        panel |= {"parameter": "clients", "splits": ["dir0.6-100", "dir0.6-200"], "points": [{}]}

    root = edited(tmp_path, "fedlesam2024_F4", change)
    with pytest.raises(
        ConfigError, match=r"clients of fedlesam_s .*: the runs of one point have 30, 60; set one value"
    ):
        at_scale.figure(load(root), "preview", "fedlesam2024_F4")


def test_what_the_figures_sweep_is_searched_for_once(tmp_path):
    """A level's or point's own choice is the row's: nothing more is tuned for the variants."""
    plain = load()
    found = at_scale.searches(plain, "preview", Requested({}, ["fedsam2022_F3"]))
    assert sorted(one.row for one in found) == sorted(plain.figures["fedsam2022_F3"].document.rows)
