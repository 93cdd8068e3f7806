"""Runs made on a machine without Snakemake and brought back are as good as any: Snakemake makes nothing again."""

import json
import os
import shutil
import sys

import pytest
from project import SPLIT

import made
from samples import full

RUN = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedsam/seed1"


@pytest.fixture
def host(project, tmp_path):
    """A copy of FlatFed on another machine, with nothing made."""
    root = tmp_path / "host"
    root.mkdir()
    return project.__class__.copied(root, source=project.root)


def make_on(host, project):
    """Make RUN on ``host`` by the script that ``describe`` prints on ``project``."""
    script = project.flatfed("describe", "--script", RUN)
    assert script.returncode == 0, script.text
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = host.call("sh", "-c", script.stdout, env={"PATH": path})
    assert done.returncode == 0, done.stderr
    assert (host.root / RUN / "run.json").exists()


def test_a_description_is_what_snakemake_passes(project):
    text = project.flatfed("describe", RUN).stdout
    record = json.loads((project.root / RUN / "run.json").read_text())
    assert json.loads(text) == record["description"]


def test_a_run_from_another_host_is_accepted(project, host):
    make_on(host, project)
    # Snakemake still knows how the old one was made, and that it was cut short.
    shutil.rmtree(project.root / RUN)
    done = project.flatfed("import", str(host.root / "results"))
    assert done.returncode == 0, done.text
    assert (host.root / RUN / "run.json").exists(), "it is copied"
    jobs = project.planned()
    assert "train" not in jobs
    assert set(jobs) == {"table", "report"}
    project.make()
    assert project.planned() == {}


@full
def test_a_run_with_an_old_record_is_accepted_in_its_place(project, host):
    protocol = "config/protocols/fedsmoo-cifar10.yaml"
    for place in (project, host):
        place.edit_yaml(
            protocol, lambda content: content["preview"].setdefault("algorithms", {}).update(fedsam={"rho": 0.3})
        )
    make_on(host, project)
    assert RUN in project.planned()["train"]
    kept = project.flatfed("import", str(host.root / RUN))
    assert kept.returncode == 2
    assert "--replace" in kept.text
    done = project.flatfed("import", "--replace", str(host.root / RUN))
    assert done.returncode == 0, done.text
    assert RUN not in project.planned().get("train", ())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record["description"].update(rounds=3), ["rounds is 3, here 2"]),
        pytest.param(lambda record: record.update(dataset_digest="0" * 64), ["dataset_digest"], marks=full),
        pytest.param(lambda record: record["versions"].update(engine=0), ["versions", "--other-code"], marks=full),
    ],
)
def test_another_run_is_refused(project, tmp_path, change, words):
    shutil.copytree(project.root / RUN, tmp_path / "run")
    made.recorded(tmp_path / "run", change)
    done = project.flatfed("import", "--replace", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "Traceback" not in done.text
    for word in words:
        assert word in done.text
    assert (tmp_path / "run/run.json").exists()
    assert project.planned() == {}


@full
@pytest.mark.parametrize("keep", ["all", "needed"])
def test_a_run_without_its_model_is_done_but_for_an_analysis(project, tmp_path, keep):
    """As runs are published: Snakemake makes tables of it, and trains only where an analysis reads the model."""
    project.edit_yaml("config/config.yaml", lambda config: config.update(keep_models=keep))
    shutil.move(project.root / RUN, tmp_path / "run")
    (tmp_path / "run/model.safetensors").unlink()
    done = project.flatfed("import", str(tmp_path / "run"))
    assert done.returncode == 0, done.text
    assert not {"train", "table"} & project.planned().keys()
    table = project.root / "results/preview/tables/fedsmoo2023_T1.csv"
    before = table.read_bytes()
    table.unlink()
    assert set(project.planned()) == {"table", "report"}
    project.make()
    assert table.read_bytes() == before
    surface = RUN.replace("/runs/", "/analysis/") + "/surface.npz"
    assert project.planned(surface)["train"] == {RUN}
    assert "train" not in project.planned()
