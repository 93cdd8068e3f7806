"""Runs copied as they are published make the table that Snakemake made of them, byte for byte."""

import os
import shutil
import subprocess
import sys

import pytest
from project import COLUMN, ROWS, SPLIT, TABLE

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"


def one_column(table):
    """Leave of the table what the project's configuration asks for."""
    first = table["columns"][0]
    table.update(rows=ROWS, columns=[{**first, "splits": [SPLIT], "id": COLUMN}])


@pytest.mark.parametrize("layout", ["published", "with its protocol"])
def test_the_table_of_published_runs_is_snakemakes(project, tmp_path, layout):
    project.edit_yaml(f"config/tables/{TABLE}.yaml", one_column)
    project.edit_yaml("config/config.yaml", lambda config: config.update(tables=[TABLE]))
    project.make(f"results/preview/tables/{TABLE}.md")
    folder = tmp_path / "there" / "runs"
    place = folder / "runs" / ("" if layout == "published" else "fedsmoo-cifar10") / SPLIT
    shutil.copytree(project.root / RUNS, place, ignore=shutil.ignore_patterns("*.safetensors"))
    done = subprocess.run(
        [sys.executable, "-m", "flatfed", "table", TABLE, "--runs", "runs", "--out", "out"],
        cwd=tmp_path / "there",
        env={**os.environ, "PYTHONPATH": str(project.root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for ending in ("csv", "md", "tex", "html"):
        ours = (tmp_path / "there" / "out" / f"{TABLE}.{ending}").read_text()
        assert ours == (project.root / f"results/preview/tables/{TABLE}.{ending}").read_text(), ending
    assert "1,797 images of 8x8)" in (tmp_path / "there" / "out" / f"{TABLE}.md").read_text(), "as the records count"
