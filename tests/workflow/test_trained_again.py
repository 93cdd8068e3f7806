"""What makes Snakemake train a run again: its algorithm, its hyper-parameters, its data; nothing else."""

import json
import re

import pytest
from project import COLUMN, ROWS, SPLIT

from samples import full

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"
PROTOCOL = "config/protocols/fedsmoo-cifar10.yaml"
TABLE = "results/preview/tables/fedsmoo2023_T1.csv"
CELL = f"results/preview/cells/fedsmoo2023_T1/{COLUMN}/fedsmoo.json"
FORCED = ("--forcerun", f"{RUNS}/fedsmoo/seed1/run.json", "--", CELL)


def set_parameters(project, **algorithms):
    """Set parameters of algorithms at preview scale."""

    def change(protocol):
        protocol["preview"].setdefault("algorithms", {}).update(algorithms)

    project.edit_yaml(PROTOCOL, change)


def new_versions(project, *names):
    """Give algorithms another version."""
    declared = "    whole_rows = True"
    for name in names:
        project.edit(f"src/flatfed/algorithms/{name}.py", (declared, f"    version = 2\n{declared}"))


def test_nothing_is_trained_again_without_a_reason(project):
    """Settings of execution and changes of the package without a version are none."""
    assert project.planned(*FORCED) == {"train": {f"{RUNS}/fedsmoo/seed1"}, "cell": {CELL}}, "one cell can be forced"
    assert project.planned() == {}

    def change(protocol):
        executor = {"cpu": "sequential", "cuda": "sequential"}
        protocol["preview"].update(checkpoint_every=7, executor=executor, rows=2, state="file")
        protocol["preview"]["evaluation"]["batch_size"] = 7

    project.edit_yaml(PROTOCOL, change)
    for path in ("engine/job/train.py", "algorithms/fedavg.py", "data/partition.py", "tables/formats/latex.py"):
        file = project.root / "src/flatfed" / path
        file.write_text(file.read_text() + "\n\nEXTRA = 1\n")
    assert set(project.planned()) == {"table", "report"}


def test_a_version_a_hyper_parameter_and_a_seed_train_their_runs_alone(project):
    new_versions(project, "feddyn", "fedcm")  # FedSMOO is built on FedDyn
    set_parameters(project, fedsam={"rho": 0.3})
    project.edit_yaml("config/config.yaml", lambda config: config.update(seeds=[1, 2]))
    again = {f"{RUNS}/{row}/seed1" for row in ("feddyn", "fedsmoo", "fedsam")}
    assert project.planned()["train"] == again | {f"{RUNS}/{row}/seed2" for row in ROWS}


def new_engine(project):
    project.edit("src/flatfed/engine/versions.py", ("ENGINE = 1", "ENGINE = 2"))


def other_data(project):
    project.edit("resources/digits/dataset.json", ('"digest": "', '"digest": "0'))


@pytest.mark.parametrize("change", [new_engine, other_data])
def test_the_engine_and_the_data_are_under_every_run(project, change):
    change(project)
    assert project.planned()["train"] == {f"{RUNS}/{row}/seed1" for row in ROWS}


def test_a_rerun_of_one_cell_refreshes_table_and_report_and_shows_it_before_and_after(project):
    places = [project.root / TABLE, project.root / "results/preview/report.html"]
    table, report = (path.read_text() for path in places)
    set_parameters(project, fedsmoo={"learning_rate": 0.01})
    ending = project.make(*FORCED, "results/preview/report.html").text.rpartition("\nCells:\n")[2]
    line = rf"  fedsmoo2023_T1, {re.escape(COLUMN)}, fedsmoo: (.+) before, (.+) now  \(results/"
    before, after = re.match(line, ending).groups()
    value = json.loads((project.root / CELL).read_text())["value"]
    assert after == f"{100 * value:.2f} (percent)" != before
    assert before.removesuffix(" (percent)") in report and f"{100 * value:.2f}" in places[1].read_text()
    assert places[0].read_text() != table and project.planned() == {}


@full
def test_models_that_nothing_reads_need_not_be_kept(project):
    project.edit_yaml("config/config.yaml", lambda config: config.update(seeds=[1, 2]) or config.pop("keep_models"))
    project.make()
    files = {path.name for path in (project.root / RUNS / "fedavg/seed2").iterdir()}
    assert files == {"metrics.csv", "run.json"}
    assert project.planned() == {}, "a model that is not kept is not missed"
    hessian = f"{RUNS}/fedavg/seed2/hessian.json".replace("/runs/", "/analysis/")
    assert project.planned("--", hessian) == {"train": {f"{RUNS}/fedavg/seed2"}, "hessian": {hessian}}


@full
def test_a_run_that_is_made_again_keeps_the_one_before(project):
    folder = project.root / RUNS / "fedsam/seed1"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    set_parameters(project, fedsam={"rho": 0.3})
    outputs, call = "src/flatfed/engine/job/outputs.py", "        self._keep_previous()\n"
    broken = f"{call}        raise SystemExit('broken')\n"
    project.edit(outputs, (call, broken))
    project.refused()
    assert (folder / "run.json").read_bytes() == before["run.json"], "a failure leaves what was there"
    assert (project.root / TABLE).exists()
    project.edit(outputs, (broken, call))
    project.make()
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == before
    assert (folder / "run.json").read_bytes() != before["run.json"]
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    project.make("-R", f"{RUNS}/fedsam/seed1/run.json")
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == before, "forced, it is kept"
