"""Sweeps of hyper-parameters: every point has one value of its own, and none stands there twice."""

from __future__ import annotations

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.plan import at_scale
from shipped import EXP

ROWS = ("fedcm", "mimelite", "mofedsam")


def test_a_point_with_the_value_of_the_plain_row_is_its_run():
    """alpha = 0.1 is the protocol's: nothing is trained twice."""
    marks = at_scale.figure(EXP, "preview", "fedsam2022_F3").panels[3].marks
    assert [(mark.algorithm, mark.x) for mark in marks] == [(row, x) for row in ROWS for x in (0.1, 0.5, 1.0)]
    assert all(run.config.update.params["alpha"] == mark.x for mark in marks for run in mark.runs)
    assert marks[0].runs[0].algorithm == "fedcm"


SEVERAL = {"parameter": "clients", "splits": ["dir0.6-100", "dir0.6-200"], "points": [{}]}


@pytest.mark.parametrize(
    ("figure", "panel", "change", "words"),
    [
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
        at_scale.figure(plan.load(root), "preview", figure)
