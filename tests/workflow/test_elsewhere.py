"""Runs made on a machine without Snakemake and brought back are as good as any: Snakemake makes nothing again."""

import json
import shutil
import sys

from project import RUNS, TABLE, Project

from samples import full

RUN = f"{RUNS}/fedsam/seed1"


def test_a_run_from_another_host_is_accepted(project, tmp_path):
    record = json.loads((project.root / RUN / "run.json").read_text())
    assert json.loads(project.flatfed("describe", RUN).stdout) == record["description"], "it is what Snakemake passes"
    host = Project.copied(tmp_path / "host", source=project.root)
    (host.root / "script.sh").write_text(project.flatfed("describe", "--script", RUN).stdout)
    host.by_hand("sh script.sh")
    # Snakemake still knows how the old one was made, and that it was cut short.
    shutil.rmtree(project.root / RUN)
    done = project.flatfed("import", host.root / "results")
    assert done.returncode == 0, done.text
    assert (host.root / RUN / "run.json").exists(), "it is copied"
    assert set(project.planned()) == {"table", "report"}


def test_the_table_of_published_runs_is_snakemakes(project, tmp_path):
    """Below ``runs`` as published, and with the protocol in their paths."""
    ignored = shutil.ignore_patterns("*.safetensors")
    for folder in ("as published/runs/dir0.6-100", "with protocol/runs/fedsmoo-cifar10/dir0.6-100"):
        shutil.copytree(project.root / RUNS, tmp_path / folder, ignore=ignored)
        place = Project(tmp_path / folder.partition("/")[0])
        command = [sys.executable, "-m", "flatfed", "table", TABLE, "--runs", ".", "--out", "out"]
        done = place.call(*command, env={"PYTHONPATH": str(project.root / "src")})
        assert done.returncode == 0, done.text
        for ending in ("csv", "md", "tex", "html"):
            assert (place.root / "out" / f"{TABLE}.{ending}").read_text() == project.table(ending), ending
        assert "1,797 images of 8x8)" in project.table("md"), "as the records count"


@full
def test_a_run_without_its_model_is_done_but_for_an_analysis(project, tmp_path):
    """As runs are published: Snakemake makes tables of it, and trains only where an analysis reads the model."""
    shutil.move(project.root / RUN, tmp_path / "run")
    (tmp_path / "run/model.safetensors").unlink()
    done = project.flatfed("import", tmp_path / "run")
    assert done.returncode == 0, done.text
    assert not {"train", "table"} & project.planned().keys()
    before = project.table()
    (project.root / f"results/preview/tables/{TABLE}.csv").unlink()
    assert set(project.planned()) == {"table", "report"}
    project.make()
    assert project.table() == before and project.planned() == {}
    surface = RUN.replace("/runs/", "/analysis/") + "/surface.npz"
    assert project.planned(surface)["train"] == {RUN}
