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
    assert {mark.line for mark in marks} == {*ROWS}
    assert [(mark.algorithm, mark.x) for mark in marks] == [(row, x) for row in ROWS for x in (0.1, 0.5, 1.0)]
    assert all(run.config.update.params["alpha"] == mark.x for mark in marks for run in mark.runs)
    assert marks[0].runs[0].algorithm == "fedcm"


def sweep(tmp_path, folders=(), **panel):
    """Load the configuration with algorithms in ``folders`` and a sweep of FedSMOO's radius; return the experiment."""
    panel = {"title": "r", "split": "dir0.1-100", "parameter": "rho", **panel}
    content = {"kind": "sweep", "title": "t", "protocol": "fedsmoo-cifar10", "rows": ["fedsmoo"], "panels": [panel]}
    small = made.small(tmp_path, "two_splits")
    root = made.edited(small, "figures/two_splits.yaml", lambda old: (old.clear(), old.update(content)))
    return plan.load(root, {"scale": "paper", "tables": [], "figures": [], "folders": list(folders)})


#: Its ``beta`` has nothing in common with FedSMOO's 1 / penalty.
OWN = """from flatfed.algorithms import Algorithm, Choice, Number

class SweptMethod(Algorithm):
    mu = Number(0.5, "weight of the old momentum", minimum=0)
    beta = Number(0.9, "weight of the old variance", minimum=0)
    penalty = Number(0.1, "strength of the proximal term", exclusive_minimum=0)
    form = Choice("a", ("a", "b"), "form")
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the method."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "swept_method.py").write_text(OWN)
    return str(folder)


@pytest.mark.parametrize(("changes", "axis"), [({}, None), ({"axis": "Momentum"}, "Momentum")])
@pytest.mark.parametrize("parameter", ["mu", "beta"])
def test_a_parameter_of_an_algorithm_of_yours(tmp_path, folder, changes, axis, parameter):
    changes = {"rows": ["swept_method"], "parameter": parameter, "values": [0.3], **changes}
    experiment = sweep(tmp_path, [folder], **changes)
    (panel,) = at_scale.figure(experiment, "paper", "two_splits").panels
    assert panel.axis == (axis or parameter)
    assert [mark.x for mark in panel.marks] == [0.3, {"mu": 0.5, "beta": 0.9}[parameter]]
    assert panel.marks[0].runs[0].algorithm == f"swept_method~{parameter}0.3"
    assert panel.marks[0].runs[0].config.update.params[parameter] == 0.3


@pytest.mark.parametrize("parameter", ["nu", "form", "alpha"])
def test_a_parameter_that_the_algorithm_does_not_have_as_a_number(tmp_path, folder, parameter):
    message = rf"panels\[0\]: parameter: unknown parameter '{parameter}'.*known: active_clients, .*mu"
    with pytest.raises(ConfigError, match=message):
        sweep(tmp_path, [folder], rows=["swept_method"], parameter=parameter, values=[0.3])


def test_a_parameter_that_the_run_does_not_have(tmp_path):
    """Local steps take the place of local epochs."""

    def edit(content):
        content["fedsmoo~steps"] = {"set": {"local_steps": 3}}

    made.edited(tmp_path, "algorithms.yaml", edit)
    experiment = sweep(tmp_path, rows=["fedsmoo~steps"], parameter="local_epochs", points=[{}])
    with pytest.raises(ConfigError, match="fedsmoo~steps in fedsmoo-cifar10: no local_epochs"):
        at_scale.figure(experiment, "paper", "two_splits")


def test_axes_of_the_papers():
    assert at_scale.figure(EXP, "paper", "fedsmoo2023_F4").panels[2].axis == r"Penalised coefficient $\beta$"
    assert at_scale.figure(EXP, "paper", "fedsam2022_F3").panels[3].axis == r"Weight $\beta$ of the fresh gradient"


def test_values_declare_variants_that_are_not_declared(tmp_path):
    """0.05 and 0.01 are declared in algorithms.yaml or by another figure, 0.1 is the protocol's, 0.3 is new."""
    experiment = sweep(tmp_path, values=[0.3, 0.05, 0.01, 0.1])
    (panel,) = at_scale.figure(experiment, "paper", "two_splits").panels
    assert [mark.x for mark in panel.marks] == [0.01, 0.05, 0.1, 0.3]
    names = [f"fedsmoo{label}" for label in ("~rho0.01", "~rho0.05", "", "~rho0.3")]
    assert [mark.runs[0].algorithm for mark in panel.marks] == names
    assert [mark.runs[0].config.update.params["rho"] for mark in panel.marks] == [0.01, 0.05, 0.1, 0.3]
    assert {(mark.algorithm, mark.label) for mark in panel.marks} == {("fedsmoo", "FedSMOO")}
    new = experiment.run("paper", "fedsmoo-cifar10", "dir0.1-100", "fedsmoo~rho0.3", 1)
    assert new.path == "results/paper/runs/fedsmoo-cifar10/dir0.1-100/fedsmoo~rho0.3/seed1"
    assert experiment.catalog.label("fedsmoo~rho0.3") == "FedSMOO, rho = 0.3"


def test_values_are_of_plain_rows(tmp_path):
    """The variant of a variant would lose the settings of the first."""
    with pytest.raises(ConfigError, match=r"panels\[0\]: values: unknown algorithm 'fedsmoo~paper-s~rho0\.3'"):
        sweep(tmp_path, rows=["fedsmoo~paper-s"], values=[0.3])


def test_an_id_with_other_settings_is_not_taken_for_a_value(tmp_path):
    """`fedsmoo~rho0.3` of a user may also change the epochs."""
    other = {"fedsmoo~rho0.3": {"set": {"rho": 0.3, "local_epochs": 2}}}
    made.edited(tmp_path, "algorithms.yaml", lambda content: content.update(other))
    message = r"two_splits\.yaml: panels\[0\]\.values: 0\.3 needs the id 'fedsmoo~rho0\.3', which has other settings"
    with pytest.raises(ConfigError, match=message):
        sweep(tmp_path, values=[0.3])


def test_two_lines_of_one_name_are_refused(tmp_path):
    """They would be drawn as the mean of both."""

    def edit(content):
        for series in content["panels"][1]["series"]:
            del series["label"]

    root = made.edited(made.small(tmp_path, "dfedsam2023_F6"), "figures/dfedsam2023_F6.yaml", edit)
    with pytest.raises(ConfigError, match=r"dfedsam2023_F6: \(b\) Clients m .*: 'DFedSAM' names two rows or series"):
        at_scale.figure(plan.load(root), "preview", "dfedsam2023_F6")


SEVERAL = {"parameter": "clients", "splits": ["dir0.6-100", "dir0.6-200"], "points": [{}]}


@pytest.mark.parametrize(
    ("figure", "panel", "change", "words"),
    [
        (
            *("fedsam2022_F3", 2, {"points": [{"split": "dir0.6-100-p10"}, {}]}),
            r"rho of fedsam in fedsam-cifar10 \(preview scale\): two points of fedsam have 0\.05",
        ),
        ("fedlesam2024_F4", 0, SEVERAL, "clients of fedlesam_s .*: the runs of one point have 30, 60; set one value"),
        ("fedsmoo2023_F4", 3, {"rows": ["fedadam"], "values": [1]}, "panels.3.: parameter: unknown parameter 'rho'"),
    ],
)
def test_points_that_are_no_sweep_are_refused(tmp_path, figure, panel, change, words):
    def edit(content):
        content["panels"][panel].pop("values")
        content["panels"][panel].update(change)

    root = made.edited(made.small(tmp_path, figure), f"figures/{figure}.yaml", edit)
    with pytest.raises(ConfigError, match=words):
        at_scale.figure(plan.load(root), "preview", figure)
