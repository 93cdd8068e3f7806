"""Sweeps of hyper-parameters: every point has one value of its own, whatever is tuned, and none stands there twice."""

from __future__ import annotations

import pytest
from test_tuning import CIFAR10, SPLIT, load, record

import made
from flatfed.errors import ConfigError
from flatfed.plan import Requested, at_scale
from shipped import EXP

RATE = 10**-1.5
ROWS = ("fedcm", "mimelite", "mofedsam")


@pytest.fixture
def chosen(tmp_path):
    """The experiment with a choice for every row of FedSAM's Figure 3, other values than the protocol's."""
    mine = load(results=tmp_path)
    for row in ("fedavg", "scaffold", "fedrobust", "fedsam", *ROWS):
        alpha = {"alpha": 0.01} if row in ROWS else {}
        record(mine, ("preview", CIFAR10, SPLIT, row), {"learning_rate": RATE, **alpha})
    return mine


def test_points_are_the_same_values_whatever_was_chosen(chosen):
    """alpha = 0.1 is the protocol's: nothing is trained twice; where 0.01 was chosen, it is another run."""
    for exp, rate, first in ((EXP, 0.1, "fedcm"), (chosen, RATE, "fedcm~beta0.1")):
        figure = at_scale.figure(exp, "preview", "fedsam2022_F3")
        marks = figure.panels[3].marks
        assert [(mark.algorithm, mark.x) for mark in marks] == [(row, x) for row in ROWS for x in (0.1, 0.5, 1.0)]
        assert {run.config.learning_rate for run in figure.runs.values()} == {rate}, "what is not swept is as chosen"
        assert all(run.config.update.params["alpha"] == mark.x for mark in marks for run in mark.runs)
        assert marks[0].runs[0].algorithm == first


SEVERAL = {"parameter": "clients", "splits": ["dir0.6-100", "dir0.6-200"], "points": [{}]}


@pytest.mark.parametrize(
    ("figure", "panel", "change", "words"),
    [
        ("fedsam2022_F3", 3, {"points": [{}]}, "alpha is swept, but `tune:` would choose alpha; .*variant"),
        (
            *("fedsam2022_F3", 2, {"points": [{"variant": "rho0.1"}, {}, {"variant": "rho0.1"}]}),
            r"rho of fedsam~rho0\.1 in fedsam-cifar10 \(preview scale\): two points of fedsam have 0\.1",
        ),
        ("fedlesam2024_F4", 0, SEVERAL, "clients of fedlesam_s .*: the runs of one point have 30, 60; set one value"),
        ("fedsmoo2023_F4", 3, {"rows": ["fedadam"], "points": [{}]}, "fedadam in .*unknown parameter 'rho'"),
    ],
)
def test_points_that_are_no_sweep_are_refused(tmp_path, figure, panel, change, words):
    root = made.edited(tmp_path, f"figures/{figure}.yaml", lambda content: content["panels"][panel].update(change))
    with pytest.raises(ConfigError, match=words):
        at_scale.figure(load(root, tune=False), "preview", figure)


def test_what_the_figures_sweep_is_searched_for_once():
    """A level's or point's own choice is the row's: nothing more is tuned for the variants."""
    searches = at_scale.searches(EXP, "preview", Requested({}, ["fedsam2022_F3"]))
    assert sorted(search.row for search in searches) == sorted(EXP.figures["fedsam2022_F3"].document.rows)
