"""What makes Snakemake train a run again: its algorithm, its hyper-parameters, its data; nothing else."""

import json
import re

import pytest
from project import ROWS

from samples import full

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
EVERY = set(ROWS)


def algorithms(jobs):
    """Return the algorithms of the trainings among the planned jobs."""
    return {made.split("/")[-2] for made in jobs.get("train", ())}


def test_nothing_is_to_be_done_the_second_time(project):
    assert "Nothing to be done" in project.make().text


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("feddyn", {"feddyn", "fedsmoo"}),
        pytest.param("fedsam", {"fedsam"}, marks=full),
        pytest.param("fedcm", set(), marks=full),
    ],
)
def test_another_version_of_an_algorithm_trains_it_and_those_built_on_it(project, name, again):
    declared = "    whole_rows = True"
    project.edit(f"src/flatfed/algorithms/{name}.py", (declared, f"    version = 2\n{declared}"))
    assert algorithms(project.planned()) == again


def test_other_settings_of_execution_train_nothing(project):
    def change(protocol):
        executor = {"cpu": "sequential", "cuda": "sequential"}
        protocol["preview"].update(checkpoint_every=7, executor=executor, rows=2, state="file")
        protocol["preview"]["evaluation"]["batch_size"] = 7

    project.edit_yaml("config/protocols/fedsmoo-cifar10.yaml", change)
    assert not algorithms(project.planned())


def test_a_hyper_parameter_and_only_its_algorithm(project):
    def change(protocol):
        protocol["preview"].setdefault("algorithms", {}).setdefault("fedsmoo", {}).update(rho=0.05)

    project.edit_yaml("config/protocols/fedsmoo-cifar10.yaml", change)
    assert algorithms(project.planned()) == {"fedsmoo"}


def test_the_engine_is_under_every_run(project):
    project.edit("src/flatfed/engine/versions.py", ("ENGINE = 1", "ENGINE = 2"))
    assert algorithms(project.planned()) == EVERY


def test_a_change_of_the_package_without_a_version_trains_nothing(project):
    for path in ("engine/job/train.py", "algorithms/fedavg.py", "data/partition.py", "tables/formats/latex.py"):
        file = project.root / "src/flatfed" / path
        file.write_text(file.read_text() + "\n\nEXTRA = 1\n")
    assert set(project.planned()) == {"table", "report"}


def test_a_new_seed_trains_only_that_seed(project):
    project.edit_yaml("config/config.yaml", lambda config: config.update(seeds=[1, 2]))
    assert project.planned()["train"] == {f"{RUNS}/{algorithm}/seed2" for algorithm in EVERY}


def test_other_data_under_the_same_name_train_everything(project):
    manifest = project.root / "resources/digits/dataset.json"
    manifest.write_text(manifest.read_text().replace('"digest": "', '"digest": "0'))
    assert algorithms(project.planned()) == EVERY


@full
def test_the_same_data_fetched_again_train_nothing(project):
    done = project.make("--force", "resources/digits/dataset.json")
    assert "Data set digits" in done.text
    assert project.planned() == {}


def test_one_cell_can_be_forced(project):
    cell = "results/preview/cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedsmoo.json"
    jobs = project.planned("--forcerun", f"{RUNS}/fedsmoo/seed1/run.json", "--", cell)
    assert jobs == {"train": {f"{RUNS}/fedsmoo/seed1"}, "cell": {cell}}


def test_a_rerun_of_one_cell_refreshes_table_and_report_and_shows_it_before_and_after(project):
    cell = "results/preview/cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedsmoo.json"
    places = [project.root / f"results/preview/{name}" for name in ("tables/fedsmoo2023_T1.csv", "report.html")]
    table, report = (path.read_text() for path in places)
    change = {"fedsmoo": {"learning_rate": 0.01}}
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml", lambda content: content["preview"].update(algorithms=change)
    )
    command = ("-R", f"{RUNS}/fedsmoo/seed1/run.json", "--", cell, "results/preview/report.html")
    ending = project.make(*command).text.rpartition("\nCells:\n")[2]
    before, after = re.match(
        r"  fedsmoo2023_T1, cifar10-dir0\.6-100, fedsmoo: (.+) before, (.+) now  \(results/", ending
    ).groups()
    value = json.loads((project.root / cell).read_text())["value"]
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
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda content: content["preview"].setdefault("algorithms", {}).update(fedsam={"rho": 0.3}),
    )
    assert project.planned()["train"] == {f"{RUNS}/fedsam/seed1"}
    table = project.root / "results/preview/tables/fedsmoo2023_T1.csv"
    project.edit(
        "src/flatfed/engine/job/outputs.py",
        ("        self._keep_previous()\n", "        self._keep_previous()\n        raise SystemExit('broken')\n"),
    )
    assert project.snakemake().returncode != 0
    assert (folder / "run.json").read_bytes() == before["run.json"], "a failure leaves what was there"
    assert table.exists()
    project.edit("src/flatfed/engine/job/outputs.py", ("        raise SystemExit('broken')\n", ""))
    assert project.planned()["train"] == {f"{RUNS}/fedsam/seed1"}, "the failed job is tried again"
    project.make()
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == before
    assert (folder / "run.json").read_bytes() != before["run.json"]
    assert project.planned() == {}
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    project.make("-R", f"{RUNS}/fedsam/seed1/run.json")
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == before, (
        "forced, it is kept, too"
    )
    assert (folder / "run.json").read_bytes() != before["run.json"]
