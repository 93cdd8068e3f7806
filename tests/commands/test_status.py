"""``flatfed status``: states of runs from folders and logs, cells drawn as a map."""

import json
import os
import time
from pathlib import Path

import pytest

import made
from flatfed import cli, plan
from flatfed.commands import status
from flatfed.engine.job import progress
from flatfed.plan import run_specs
from flatfed.runs import lock
from repository import ROOT

TABLE, PROTOCOL, SPLIT = "fedsmoo2023_T1", "fedsmoo-cifar10", "dir0.6-100"
PROGRESS = f"{PROTOCOL}/{SPLIT}/fedcm/seed1: round 300/800  test accuracy 61.20 %  {{pace}} s a round  2.1 h left\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the project, with nothing made, that asks for one column."""
    for part in ("config", "workflow"):
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / "config.yaml").write_text(
        f"scale: paper\ntables: [{{table: {TABLE}, columns: [cifar10-{SPLIT}]}}]\nfigures: []\nseeds: [1]\n"
    )
    monkeypatch.chdir(tmp_path)
    return plan.load(tmp_path)


def state(exp, run):
    return status.state(run, status.failures(exp.paths.logs, run.scale))


def run_of(exp, row):
    return run_specs.run(exp, "paper", PROTOCOL, SPLIT, row, 1)


def logged(run, text, age=0.0):
    log = Path("logs/paper/train", PROTOCOL, SPLIT, run.algorithm, "seed1.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    os.utime(log, (time.time() - age,) * 2)


def finished(run, **changes):
    folder = Path(run.path)
    host = {"host": {"processor": "m", "gpu": None}, "parameters": 1000, "peak_memory_bytes": 1}
    about = {"device": "cpu", "seconds": 800.0, **host, "rounds_done": 800, **changes}
    made.run(folder, {"round": [about["rounds_done"]]}, settings=run.config.as_json(), **about)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PROGRESS.format(pace="25"), "stopped"),
        (PROGRESS.format(pace="25") + "flatfed train: the disk is full\n", "failed"),
        ("Traceback (most recent call last):\n  ...\ntorch.OutOfMemoryError: CUDA out of memory\n", "failed"),
        ("flatfed: the process ended without a status: killed, or out of memory\n", "failed"),
        (PROGRESS.format(pace="25") + "flatfed train: interrupted\n", "stopped"),
        ("", "stopped"),
    ],
)
def test_the_log_of_a_run_tells_a_failure_from_a_stop(here, text, name):
    run = run_of(here, "fedcm")
    assert state(here, run).name == "waiting"
    made.so_far(run.path, {"round": [300]}, settings=run.config.as_json())
    logged(run, text)
    assert state(here, run).name == name
    finished(run)
    assert state(here, run).name == "done", "whatever the log says"


def test_a_map_of_the_table_and_what_is_left(here, capsys):
    finished(run_of(here, "fedavg"))
    under_way(run_of(here, "fedcm"))
    logged(run_of(here, "feddyn"), "flatfed train: no such data set\n")
    with lock.held(run_of(here, "fedcm").path):
        assert cli.main(["status", "--config", "config.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"{TABLE}, paper scale: 8 cells: 1 done (#), 5 waiting (.), 1 running (>), 1 failed (!)" in said
    signs = dict(line.rsplit(maxsplit=1) for line in said.splitlines() if line.startswith("  "))
    assert {name.strip(): sign for name, sign in signs.items()} == {
        "FedAvg": "#", "FedAdam": ".", "SCAFFOLD": ".", "FedCM": ">", "FedDyn": "!", "FedSAM": ".", "MoFedSAM": ".",
        "FedSMOO": ".",
    }  # fmt: skip
    assert "round 310/800" in said and "no such data set  (logs/paper/train/" in said
    log = Path(here.paths.log("table", "paper", TABLE))
    log.parent.mkdir(parents=True)
    log.write_text("flatfed table: x/run.json: not the requested run\n")
    cli.main(["status", "--config", "config.yaml"])
    assert f"failed   flatfed table: x/run.json: not the requested run  ({log})" in capsys.readouterr().out


def test_an_unknown_table_is_named(here, capsys):
    assert cli.main(["status", "--config", "config.yaml", "fedsmoo2023_T11"]) == 2
    assert "did you mean 'fedsmoo2023_T1'?" in capsys.readouterr().err


def under_way(run, age=0.0, done=310, pace=3.0):
    """Have the folder of ``run`` say what its training says of itself."""
    folder = Path(run.path)
    folder.mkdir(parents=True, exist_ok=True)
    at = {"run": "x/y/fedcm/seed1", "round": done, "rounds": 800, "pace": pace, "accuracy": 0.625, "unseen": "test"}
    (folder / progress.PROGRESS_FILE).write_text(json.dumps(at))
    os.utime(folder / progress.PROGRESS_FILE, (time.time() - age,) * 2)


def test_a_training_of_this_host_runs_as_long_as_it_holds_its_lock(here):
    run = run_of(here, "fedcm")
    logged(run, PROGRESS.format(pace="25"), age=5000)
    under_way(run, age=5000)
    with lock.held(run.path):
        found = state(here, run)
        assert found.name == "running"
        assert found.words == "x/y/fedcm/seed1: round 310/800  test accuracy 62.50 %  3 s a round  24 min left"
    under_way(run)
    assert state(here, run).name == "stopped", "killed a moment ago"
    logged(run, "flatfed: the process ended without a status: killed, or out of memory\n")
    assert state(here, run).name == "failed"


def test_a_finished_run_that_is_made_again_is_running(here):
    run = run_of(here, "fedcm")
    finished(run)
    with lock.held(run.path):
        assert state(here, run).name == "running"
    assert state(here, run).name == "done"


def test_what_fails_before_the_training_is_listed(here, capsys):
    log = Path("logs/fetch/cifar10.log")
    log.parent.mkdir(parents=True)
    log.write_text("flatfed fetch: cifar10.npz: no such file\n")
    cli.main(["status", "--config", "config.yaml"])
    said = capsys.readouterr().out
    assert "8 cells: 8 waiting (.)" in said and "8 of 8 runs to make" in said
    assert said.count("no such file") == 1 and f"failed   flatfed fetch: cifar10.npz: no such file  ({log})" in said


def test_the_columns_of_a_map_are_named(here, capsys):
    cli.main(["status", "--config", "config.yaml", "--config", f"tables=[{TABLE}]"])
    said = capsys.readouterr().out.splitlines()
    row = next(line for line in said if line.startswith("  FedCM "))
    columns = list(here.tables[TABLE].columns)
    assert row.split()[1:] == ["." * 10, "." * (len(columns) - 10)]
    first = next(k for k, line in enumerate(said) if line.startswith("  columns: "))
    named = ", ".join(f"{number}={column}" for number, column in enumerate(columns, start=1))
    assert said[first] == f"  columns: {named}"


def test_a_run_that_diverged_is_marked_and_needs_no_hours(here, capsys):
    run = run_of(here, "fedcm")
    finished(run, rounds_done=6, diverged_at=7)
    cli.main(["status", "--config", "config.yaml"])
    said = capsys.readouterr().out
    assert "8 cells: 1 diverged (x), 7 waiting (.)" in said and f"diverged {run.path}: in round 7\n" in said
    assert "\n7 of 8 runs to make" in said


@pytest.mark.parametrize("content", ['{"description": ', "", "{}", "[]", "null", None])
def test_a_damaged_record_has_failed_and_the_others_are_shown(here, capsys, content):
    damaged, whole = run_of(here, "fedcm"), run_of(here, "fedavg")
    finished(damaged)
    file = Path(damaged.path, "run.json")
    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    finished(whole)
    assert cli.main(["status", "--config", "config.yaml"]) == 0
    found = capsys.readouterr()
    assert "8 cells: 1 done (#), 6 waiting (.), 1 failed (!)" in found.out
    said = f"failed   {file}: not the record of a run; delete it to train the run again"
    assert found.out.count(said) == 1 and "\n7 of 8 runs to make" in found.out
    assert found.err == "", "named once"


def test_a_timing_that_fails_is_listed(here, capsys):
    """fedsmoo2023_T7: seconds of a round come from a timing, and need no runs."""
    log = Path("logs/paper/timing", PROTOCOL, "path3-100", "fedcm.log")
    log.parent.mkdir(parents=True)
    log.write_text("flatfed time: no room\n")
    assert cli.main(["status", "--config", "config.yaml", "fedsmoo2023_T7"]) == 0
    said = capsys.readouterr().out
    assert f"failed   flatfed time: no room  ({log})\n" in said


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"round": 3'])
def test_a_broken_state_is_none(here, content):
    run = run_of(here, "fedcm")
    under_way(run)
    Path(run.path, progress.PROGRESS_FILE).write_text(content)
    assert progress.read(Path(run.path)) is None
    assert state(here, run).name == "waiting"


def test_a_run_of_another_version_is_listed(here, capsys):
    run = run_of(here, "fedavg")
    finished(run, versions={"engine": 1, "algorithm": 0})
    finished(run_of(here, "fedcm"), versions={"engine": 1})
    assert cli.main(["status", "--config", "config.yaml"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("done ")]
    assert lines == [f"done     {run.path}: algorithm is version 0, now 1"]
