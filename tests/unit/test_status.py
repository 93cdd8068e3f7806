"""``flatfed status``: states of runs from folders and logs, cells drawn as a map, hours left."""

import json
import os
import time
from pathlib import Path

import pytest

from flatfed import cli, experiment
from flatfed.commands import status

ROOT = Path(__file__).resolve().parents[2]
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
    return experiment.load(tmp_path)


def run_of(exp, row):
    return exp.run("paper", PROTOCOL, SPLIT, row, 1)


def logged(run, text, age=0.0):
    log = Path("logs/paper/train", PROTOCOL, SPLIT, run.algorithm, "seed1.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    os.utime(log, (time.time() - age,) * 2)


def finished(run, **changes):
    folder = Path(run.path)
    folder.mkdir(parents=True)
    record = {
        **{"description": run.description, "rounds_done": 800, "diverged_at": None, "device": "cpu", "seconds": 800.0},
        **{"host": {"processor": "m", "gpu": None}, "parameters": 1000, "peak_memory_bytes": 1},
    }
    (folder / "run.json").write_text(json.dumps({**record, **changes}))


@pytest.mark.parametrize(
    ("text", "age", "name", "rounds"),
    [
        (PROGRESS.format(pace="25"), 100, "running", 300),
        (PROGRESS.format(pace="25"), 700, "stopped", 300),
        (PROGRESS.format(pace="4e+02"), 700, "running", 300),
        (PROGRESS.format(pace="25") + "flatfed train: the disk is full\n", 1, "failed", 300),
        ("Traceback (most recent call last):\n  ...\ntorch.OutOfMemoryError: CUDA out of memory\n", 1, "failed", 0),
        ("flatfed: the training process ended without a status: killed, or out of memory\n", 1, "failed", 0),
        (PROGRESS.format(pace="25") + "flatfed train: interrupted\n", 1, "stopped", 300),
        ("", 1, "running", 0),
    ],
)
def test_the_state_of_a_run_is_in_its_log(here, text, age, name, rounds):
    run = run_of(here, "fedcm")
    assert status.state(run, time.time()).name == "waiting"
    logged(run, text, age)
    found = status.state(run, time.time())
    assert (found.name, found.rounds) == (name, rounds)
    finished(run)
    assert status.state(run, time.time()).name == "done", "whatever the log says"


def test_a_map_of_the_table_and_what_is_left(here, capsys):
    finished(run_of(here, "fedavg"))
    made = here.cell("paper", TABLE, f"cifar10-{SPLIT}", "fedavg")
    logged(run_of(here, "fedcm"), PROGRESS.format(pace="2"))
    logged(run_of(here, "feddyn"), "flatfed train: no such data set\n")
    assert cli.main(["status", "--config", "config.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"{TABLE}, paper scale: 8 cells: 6 waiting (.), 1 running (>), 1 failed (!)" in said
    signs = dict(line.rsplit(maxsplit=1) for line in said.splitlines() if line.startswith("  "))
    assert {name.strip(): sign for name, sign in signs.items()} == {
        "FedAvg": ".", "FedAdam": ".", "SCAFFOLD": ".", "FedCM": ">", "FedDyn": "!", "FedSAM": ".", "MoFedSAM": ".",
        "FedSMOO": ".",
    }  # fmt: skip
    assert "round 300/800" in said and "no such data set  (logs/paper/train/" in said
    Path(made.path).parent.mkdir(parents=True)
    Path(made.path).write_text("{}")
    cli.main(["status", "--config", "config.yaml"])
    assert "8 cells: 1 done (#), 5 waiting (.)" in capsys.readouterr().out


def test_the_hours_left_count_what_is_behind_a_run(here, capsys):
    """FedAvg took 1 s a round: FedCM has 500 of 800 to go, four more rows 800, three rows take two gradients a step."""
    finished(run_of(here, "fedavg"))
    logged(run_of(here, "fedcm"), PROGRESS.format(pace="2"))
    cli.main(["status", "--config", "config.yaml"])
    assert f"7 runs to make: {(500 + 3 * 800 + 3 * 2 * 800) / 3600:.1f} h of one core" in capsys.readouterr().out


def test_an_unknown_table_is_named(here, capsys):
    assert cli.main(["status", "--config", "config.yaml", "fedsmoo2023_T11"]) == 2
    assert "did you mean 'fedsmoo2023_T1'?" in capsys.readouterr().err
