"""Runs copied as they are published make the table that Snakemake made of them, byte for byte."""

import shutil
import sys

from project import COLUMN, ROWS, SPLIT, TABLE, Project

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"


def one_column(table):
    """Leave of the table what the project's configuration asks for."""
    first = table["columns"][0]
    table.update(rows=ROWS, columns=[{**first, "splits": [SPLIT], "id": COLUMN}])


def test_the_table_of_published_runs_is_snakemakes(project):
    """Below ``runs`` as published, and with the protocol in their paths."""
    project.edit_yaml(f"config/tables/{TABLE}.yaml", one_column)
    project.edit_yaml("config/config.yaml", lambda config: config.update(tables=[TABLE]))
    project.make(f"results/preview/tables/{TABLE}.md")
    for layout in ("", "fedsmoo-cifar10"):
        place = Project(project.root / "there" / f"as {layout}")
        ignored = shutil.ignore_patterns("*.safetensors")
        shutil.copytree(project.root / RUNS, place.root / "runs/runs" / layout / SPLIT, ignore=ignored)
        command = [sys.executable, "-m", "flatfed", "table", TABLE, "--runs", "runs", "--out", "out"]
        done = place.call(*command, env={"PYTHONPATH": str(project.root / "src")})
        assert done.returncode == 0, done.stderr
        for ending in ("csv", "md", "tex", "html"):
            ours = (place.root / "out" / f"{TABLE}.{ending}").read_text()
            assert ours == (project.root / f"results/preview/tables/{TABLE}.{ending}").read_text(), ending
        text = (place.root / "out" / f"{TABLE}.md").read_text()
        assert "1,797 images of 8x8)" in text, "as the records count"
