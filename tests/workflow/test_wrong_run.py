"""A run that is not the one a cell asks for stops the cell, under Snakemake too, and the cell made before stays."""

import os
import shutil

import pytest
from project import COLUMN, TABLE

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
CELL = f"results/preview/cells/{TABLE}/{COLUMN}/fedsmoo.json"


def swap(run):
    """Put FedAvg's run in place."""
    for file in run.iterdir():
        if file.is_file():
            shutil.copy(run.parents[1] / "fedavg" / "seed1" / file.name, file)


def edit(run):
    """Make an accuracy better than it was."""
    path = run / "metrics.csv"
    head, first, line = path.read_text().splitlines()
    fields = line.split(",")
    fields[head.split(",").index("test_accuracy")] = "0.999"
    path.write_text("\n".join([head, first, ",".join(fields), ""]))


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (swap, 'fedsmoo/seed1/run.json: not the run that is asked for: algorithm is "fedavg", here "fedsmoo"'),
        (edit, "fedsmoo/seed1/metrics.csv: is not the file that run.json beside it was written with"),
    ],
)
def test_the_cell_is_refused_and_the_old_one_stays(project, slip, said):
    run, cell = project.root / RUNS / "fedsmoo" / "seed1", project.root / CELL
    before = cell.read_bytes()
    slip(run)
    for file in run.iterdir():
        os.utime(file)  # newer than the cell, so that Snakemake makes that again
    done = project.snakemake(CELL)
    log = project.root / "logs/preview/cell" / TABLE / COLUMN / "fedsmoo.log"
    assert done.returncode != 0 and "Traceback" not in done.text
    assert said in log.read_text() and said in done.text, "in the log, which Snakemake prints"
    assert cell.read_bytes() == before
