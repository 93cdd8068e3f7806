"""A run that is not the requested one stops its table, under Snakemake too, and the table made before stays."""

import os
import shutil

import pytest
from project import TABLE

from samples import full

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
MADE = [f"results/preview/tables/{TABLE}.{ending}" for ending in ("csv", "md", "tex", "html")]


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
        (swap, 'fedsmoo/seed1/run.json: not the requested run: algorithm is "fedavg", here "fedsmoo"'),
        pytest.param(edit, "fedsmoo/seed1/metrics.csv: is not the file that run.json next to it describes", marks=full),
    ],
)
def test_the_table_lists_all_refused_runs_and_the_old_one_stays_until_they_are_mended(project, slip, said):
    before = [(project.root / path).read_bytes() for path in MADE]
    for algorithm in ("fedsmoo", "feddyn"):
        run = project.root / RUNS / algorithm / "seed1"
        slip(run)
        for file in run.iterdir():
            os.utime(file)  # newer than the table, so that Snakemake makes it again
    log = project.root / f"logs/preview/table/{TABLE}.log"
    for call in ("first", "second"):
        log.unlink()
        done = project.snakemake(MADE[1])
        assert done.returncode != 0 and "Traceback" not in done.text, call
        lines = log.read_text()
        assert said in lines and said.replace("fedsmoo", "feddyn") in lines and lines.count("\n") == 2
        assert [(project.root / path).read_bytes() for path in MADE] == before
    for algorithm in ("fedsmoo", "feddyn"):
        shutil.rmtree(project.root / RUNS / algorithm)
    project.make()
    assert (project.root / MADE[0]).read_bytes() == before[0]
