"""Runs of another machine are as good as any: Snakemake makes nothing again."""

import json
import shutil
import sys

from project import RUNS, TABLE, Project

from samples import full

RUN = f"{RUNS}/fedsam/seed1"


@full
def test_a_run_from_another_host_is_a_folder_in_published(project, tmp_path):
    """Without its model, so an analysis of it trains it. A run that is forced is trained."""
    record = json.loads((project.root / RUN / "run.json").read_text())
    assert json.loads(project.flatfed("describe", RUN).stdout) == record["description"], "it is what Snakemake passes"
    before = project.table()
    shutil.move(project.root / RUN, tmp_path / "there")
    (tmp_path / "there/model.safetensors").unlink()
    published = ("--config", f"published=[{tmp_path / 'there'}]")
    assert set(project.planned(*published)) == {"table", "report"}
    surface = RUN.replace("/runs/", "/analysis/") + "/surface.npz"
    assert project.planned(*published, "--", surface)["train"] == {RUN}
    assert project.planned(*published, "-R", f"{RUN}/run.json")["train"] == {RUN}
    project.make(*published)
    assert project.table() == before and project.planned(*published) == {}


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
