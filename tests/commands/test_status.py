"""``flatfed status``: states of runs from folders and logs, cells drawn as a map."""

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

import made
from flatfed.commands import status, watch
from flatfed.runs import lock, record
from shipped import EXP

TABLE, PROTOCOL, SPLIT = "fedsmoo2023_T1", "fedsmoo-cifar10", "dir0.6-100"
PROGRESS = f"{PROTOCOL}/{SPLIT}/fedcm/seed1: round 300/800  test accuracy 61.20 %  25 s a round  2.1 h left\n"
KILLED = "flatfed: the process ended without a status: killed, or out of memory\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, whose configuration requests one column and one seed."""
    monkeypatch.chdir(tmp_path)
    table = f"{{table: {TABLE}, columns: [cifar10-{SPLIT}]}}"
    Path("config.yaml").write_text(f"scale: paper\ntables: [{table}]\nfigures: []\nseeds: [1]\n")


def run_of(row):
    return EXP.run("paper", PROTOCOL, SPLIT, row, 1)


def state(run):
    return status.state(run, status.failures(EXP.paths, run.scale))


def write(path, text, age=0.0):
    """Write a file that is ``age`` seconds old."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def finished(run, **changes):
    made.run(run.path, {"round": [changes.get("rounds_done", 800)]}, settings=run.config.as_json(), **changes)


def under_way(run):
    """Leave the record and the lines of 310 rounds, 3 s each."""
    columns = {"round": [309, 310], "test_accuracy": [0.5, 0.625]}
    made.so_far(run.path, columns, settings=run.config.as_json(), seconds=930.0)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PROGRESS, "stopped"),
        (PROGRESS + "flatfed train: the disk is full\n", "failed"),
        ("Traceback (most recent call last):\n  ...\ntorch.OutOfMemoryError: CUDA out of memory\n", "failed"),
        (KILLED, "failed"),
        (PROGRESS + "flatfed train: interrupted\n", "stopped"),
    ],
)
def test_the_log_of_a_run_distinguishes_a_failure_from_a_stop(text, name):
    """A training of this host runs as long as it holds its lock, whatever its files say."""
    run = run_of("fedcm")
    assert state(run).name == "waiting"
    under_way(run)
    write(run.log("train"), text, age=5000)
    assert state(run).name == name
    if name == "stopped":
        assert state(run).words == f"{run.path}: after round 310; without a checkpoint, it begins again"
        write(Path(run.path, record.CHECKPOINT), "")
        assert state(run).words == f"{run.path}: after round 310"
    with lock.held(run.path):
        words = f"{run.path}: round 310/800  test accuracy 62.50 %  3 s a round  24 min left"
        assert state(run) == status.State("running", words)
    finished(run)
    assert state(run).name == "done", "whatever the log says"
    with lock.held(run.path):
        assert state(run).name == "running", "it is trained again"


def test_a_map_of_the_table_its_columns_and_failed_jobs(call):
    finished(run_of("fedavg"), versions={"engine": 1, "algorithm": 0})
    finished(run_of("fedadam"), rounds_done=6, diverged_at=7)
    under_way(run_of("fedcm"))
    logs = {
        run_of("feddyn").log("train"): "flatfed train: no such data set",
        "logs/fetch/cifar10.log": "flatfed fetch: cifar10.npz: no such file",
        f"logs/paper/timing/{PROTOCOL}/{SPLIT}/fedcm.log": "flatfed time: no room",
    }
    for log, text in logs.items():
        write(log, f"{text}\n")
    with lock.held(run_of("fedcm").path):
        code, out, err = call("status", "--config", "config.yaml")
    assert (code, err) == (0, "")
    counts = "1 diverged (x), 5 waiting (.), 1 running (>), 1 failed (!)"
    assert f"{TABLE}, paper scale: 8 cells: {counts}" in out and "\n7 of 8 runs to make" in out
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("  ")] == list(".x.>!...")
    assert "round 310/800" in out and f"diverged {run_of('fedadam').path}: in round 7\n" in out
    stale = f"waiting  {run_of('fedavg').path}: algorithm is version 0, now 1; it will be trained again\n"
    assert stale in out
    assert [out.count(f"failed   {text}  ({log})\n") for log, text in logs.items()] == [1] * len(logs)
    columns = list(EXP.tables[TABLE].columns)
    lines = call("status", "--config", "config.yaml", "--config", f"tables=[{TABLE}]")[1].splitlines()
    row = next(line for line in lines if line.startswith("  FedSAM "))
    assert row.split()[1:] == ["." * 10, "." * (len(columns) - 10)]
    assert f"  columns: {', '.join(f'{number}={name}' for number, name in enumerate(columns, start=1))}" in lines


def test_a_failure_whose_output_exists_now_is_forgotten(call):
    """The log of the job that failed stays if somebody makes its table by hand, or copies the results."""
    logs = {
        f"logs/paper/table/{TABLE}.log": f"results/paper/tables/{TABLE}.csv",
        "logs/paper/report.log": "results/paper/report.html",
        f"logs/paper/partition/{PROTOCOL}/{SPLIT}/seed1.log": f"results/paper/partitions/{PROTOCOL}/{SPLIT}/seed1.npz",
        "logs/fetch/cifar10.log": "resources/cifar10/dataset.json",
    }
    for log, output in logs.items():
        write(log, "DataError: no room\n")
        assert log in call("status", "--config", "config.yaml")[1]
        write(output, "")
        assert log not in call("status", "--config", "config.yaml")[1]


def test_watch_has_a_bar_for_each_running_training():
    """Neither for one that was killed, nor for one that has ended."""
    begun, running, killed = (run_of(row) for row in ("fedavg", "fedcm", "fedsam"))
    under_way(running)
    under_way(killed)
    console = Console(file=io.StringIO(), width=140, force_terminal=True, color_system=None)
    bars = watch.Bars({run.path: run for run in (begun, running, killed)}, console)
    with bars.display, lock.held(running.path), lock.held(begun.path):
        bars.draw()
    shown, text = console.file.getvalue(), "round 310/800  test accuracy 62.50 %  3 s a round  24 min left"
    assert running.name in shown and text in shown and "fedsam" not in shown
    assert [(task.completed, task.total) for task in bars.display.tasks] == [(0, 800), (310, 800)]
    bars.draw()
    assert bars.display.tasks == []


@pytest.mark.parametrize("command", ["status", "verify"])
def test_a_figure_is_refused_as_such(call, command):
    status, _, err = call(command, "fedsmoo2023_F7", "--config", "config.yaml")
    assert (status, err) == (2, f"flatfed {command}: fedsmoo2023_F7: a figure; this command shows tables\n")
