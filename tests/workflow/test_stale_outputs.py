"""Seals show stale outputs, also without Snakemake's records; a run that is not the requested one stops its table."""

import os
import shutil

import pytest
from project import COLUMN, ROWS, TABLE

from samples import full

PREVIEW = "results/preview"
FIGURE = "fedsmoo2023_F5"  # of partitions: nothing to train
CELL = f"{PREVIEW}/cells/{TABLE}/{COLUMN}/fedavg.json"
TARGETS = ("--", "all", CELL)
FILES = [
    *(f"{PREVIEW}/tables/{TABLE}.md", f"{PREVIEW}/figures/{FIGURE}.png", f"{PREVIEW}/report.html"),
    *("results/errata.html", CELL),
]
PROTOCOL = "config/protocols/fedsmoo-cifar10.yaml"
REFUSED = "learning_rate is 0.1, here 0.05; remove the run's folder, and the next call trains the run again"
NUMBER = ("0.6,100,0.1,fedavg,,,79.52,", "0.6,100,0.1,fedavg,,,79.25,")


def test_stale_outputs_are_rebuilt_and_stale_runs_are_refused(project):
    files = [project.root / path for path in FILES]
    runs = {path: path.read_bytes() for path in (project.root / PREVIEW / "runs").rglob("seed1/*")}
    project.edit_yaml("config/config.yaml", lambda config: config.update(figures=[FIGURE]))
    project.make(*TARGETS)
    figure = project.root / FILES[1]
    drawn = figure.read_bytes()
    shutil.rmtree(project.root / ".snakemake")
    assert project.planned(*TARGETS) == {}, "seals are enough"
    for path in files:
        path.write_bytes(b"")
    project.edit(f"config/reference/{TABLE}.csv", NUMBER)
    assert "settings, numbers, code or files changed" in project.make(*TARGETS).text
    assert all(path.stat().st_size for path in files) and figure.read_bytes() == drawn
    assert ",0.7925," in (project.root / f"{PREVIEW}/tables/{TABLE}.csv").read_text()

    made = [path.read_bytes() for path in files]
    shutil.rmtree(project.root / ".snakemake")
    project.edit_yaml(PROTOCOL, lambda protocol: protocol["preview"].update(learning_rate=0.05))
    done = project.snakemake(*TARGETS)
    assert done.returncode != 0 and "Train " not in done.text
    lines = (project.root / f"logs/preview/table/{TABLE}.log").read_text().splitlines()
    assert [line.partition("run.json: not the requested run: ")[2] for line in lines] == [REFUSED] * len(ROWS), lines
    assert [path.read_bytes() for path in files] == made, "the old files stay"
    assert {path: path.read_bytes() for path in runs} == runs


def swap(run):
    """Put FedAvg's run in place."""
    for file in ("run.json", "metrics.csv", "model.safetensors"):
        shutil.copy(run.parents[1] / "fedavg" / "seed1" / file, run / file)


def edit(run):
    """Add a digit to the last line."""
    path = run / "metrics.csv"
    path.write_text(path.read_text()[:-1] + "7\n")


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (swap, 'fedsmoo/seed1/run.json: not the requested run: algorithm is "fedavg", here "fedsmoo"'),
        pytest.param(edit, "fedsmoo/seed1/metrics.csv: is not the file that run.json next to it describes", marks=full),
    ],
)
def test_a_table_lists_all_wrong_runs_and_the_old_one_stays(project, slip, said):
    table = project.root / f"{PREVIEW}/tables/{TABLE}.csv"
    before = table.read_bytes()
    for algorithm in ("fedsmoo", "feddyn"):
        run = project.root / PREVIEW / "runs/fedsmoo-cifar10/dir0.6-100" / algorithm / "seed1"
        slip(run)
        for file in run.iterdir():
            os.utime(file)  # newer than the table, so that Snakemake makes it again
    done = project.snakemake(f"{PREVIEW}/tables/{TABLE}.md")
    assert done.returncode != 0 and "Traceback" not in done.text
    lines = (project.root / f"logs/preview/table/{TABLE}.log").read_text()
    assert said in lines and said.replace("fedsmoo", "feddyn") in lines and lines.count("\n") == 2
    assert table.read_bytes() == before
