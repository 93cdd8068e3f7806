"""What makes Snakemake train a run again: its algorithm, its hyper-parameters, its data; nothing else."""

import csv
import json
import re

import pytest
from project import COLUMN, NO_GPU, PROTOCOL, ROWS, RUNS, TABLE, log_of

from samples import full, sampled

CELL = f"results/preview/cells/{TABLE}/{COLUMN}/fedsmoo.json"
FORCED = ("--forcerun", f"{RUNS}/fedsmoo/seed1/run.json", "--", CELL)


def test_nothing_is_trained_again_without_a_reason(project):
    """Settings of execution and changes of the package without a version are none."""
    executor = {"cpu": "sequential", "cuda": "sequential"}
    project.preview(executor=executor, rows=2, state="file")
    project.edit_yaml(PROTOCOL, lambda protocol: protocol["preview"]["evaluation"].update(batch_size=7))
    for path in ("engine/job/train.py", "algorithms/fedavg.py", "data/partition.py", "tables/formats/latex.py"):
        file = project.root / "src/flatfed" / path
        file.write_text(file.read_text() + "\n\nEXTRA = 1\n")
    assert set(project.planned()) == {"table", "report"}


def test_a_version_a_hyper_parameter_and_a_seed_train_their_runs_alone(project):
    declared = "    whole_rows = True"
    for name in ("feddyn", "fedcm"):  # FedSMOO is built on FedDyn
        project.edit(f"src/flatfed/algorithms/{name}.py", (declared, f"    version = 2\n{declared}"))
    project.preview({"fedsam": {"rho": 0.3}})
    project.edit_yaml("config/config.yaml", lambda config: config.update(seeds=[1, 2]))
    again = {f"{RUNS}/{row}/seed1" for row in ("fedsmoo", "fedsam")}
    assert project.planned()["train"] == again | {f"{RUNS}/{row}/seed2" for row in ROWS}


ENGINE = ("src/flatfed/runs/versions.py", ("ENGINE = 1", "ENGINE = 2"))
DATA = ("resources/digits/dataset.json", ('"digest": "', '"digest": "0'))


@pytest.mark.parametrize("change", sampled([ENGINE, DATA], [DATA]), ids=str)
def test_the_engine_and_the_data_are_under_every_run(project, change):
    project.edit(*change)
    assert project.planned()["train"] == {f"{RUNS}/{row}/seed1" for row in ROWS}


def cells(project):
    return {line["row"]: line for line in csv.DictReader(project.table().splitlines())}


@full
def test_a_rerun_cell_is_shown_before_and_after_and_a_run_that_diverged_as_such(project):
    before, report = cells(project), project.root / "results/preview/report.html"
    first = report.read_text()
    project.preview({"fedsmoo": {"learning_rate": 0.01}, "fedsam": {"learning_rate": 1e6}})
    text = project.make(*FORCED, "all", env=NO_GPU).text
    assert "device: auto, and there is no GPU here: trainings run on the CPU." in text
    old, new = re.search(rf"(?m)^{re.escape(CELL)}: (.+) before, (.+) now$", text).groups()
    value = json.loads((project.root / CELL).read_text())["value"]
    assert new == f"{100 * value:.2f} (percent)" != old
    assert old.removesuffix(" (percent)") in first and f"{100 * value:.2f}" in report.read_text()

    folder = f"{RUNS}/fedsam/seed1"
    assert re.search(rf"(?m)^{log_of(folder)}: .*/fedsam/seed1: diverged at round 1: ", text)
    assert "Traceback" not in text and "Trying to restart" not in text
    record = json.loads((project.root / folder / "run.json").read_text())
    assert (record["diverged_at"], record["rounds_done"]) == (1, 0)
    assert len((project.root / folder / "metrics.csv").read_text().splitlines()) == 1, "no round is counted"
    now = cells(project)
    assert [now["fedsam"][key] for key in ("status", "value", "difference")] == ["diverged", "", ""]
    assert {row for row in ROWS if now[row] == before[row]} == {"fedavg"}
    for ending in ("md", "html"):
        assert "Of 3 cells: 1 diverged (a run ended in non-finite numbers)." in project.table(ending)
    assert project.planned() == {}, "it has an end like any other run"
