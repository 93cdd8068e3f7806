"""In a locale that writes 0,5 for a half, every file is the one that any other locale gives."""

import csv
import json
import shutil
import subprocess

import pytest
from project import ROWS, TABLE

from samples import full

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
OF_THE_MACHINE = {
    "finished",
    "peak_memory_bytes",
    "seconds",
    "seconds_training",
    "seconds_evaluation",
    "sessions",
    "record_sha256",
}


@pytest.fixture
def german(tmp_path):
    """The environment of processes that take German habits as their first act, whether or not anything asks them to."""
    folder = tmp_path / "locales"
    folder.mkdir()
    if not shutil.which("localedef"):
        pytest.skip("no localedef here, which makes locales (Debian: libc-bin)")
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"the German locale cannot be made here (Debian: locales): {made.stderr.strip()}")
    customs = "import locale\nlocale.setlocale(locale.LC_ALL, '')\nassert locale.str(0.5) == '0,5'\n"
    (tmp_path / "sitecustomize.py").write_text(customs)
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "PYTHONPATH": str(tmp_path)}


def metrics(folder):
    with (folder / "metrics.csv").open() as file:
        return [{name: value for name, value in line.items() if name != "seconds"} for line in csv.DictReader(file)]


def record(folder):
    found = json.loads((folder / "run.json").read_text())
    found["files"].pop("metrics.csv")  # which has a clock in it
    return {key: value for key, value in found.items() if key not in OF_THE_MACHINE}


@full
def test_runs_and_tables_are_the_same(trained, project, german):
    shutil.rmtree(project.root / "results")
    done = project.snakemake(env=german)
    assert done.returncode == 0, done.text
    for algorithm in ROWS:
        ours, theirs = (place.root / RUNS / algorithm / "seed1" for place in (project, trained))
        assert metrics(ours) == metrics(theirs)
        assert record(ours) == record(theirs)
        assert (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes()
    for ending in ("csv", "md", "tex", "html"):
        file = f"results/preview/tables/{TABLE}.{ending}"
        assert (project.root / file).read_bytes() == (trained.root / file).read_bytes()
