"""A training that is killed loses nothing: Snakemake keeps its checkpoint, and the retry goes on from it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import SPLIT

from flatfed.engine.checkpoint import NAME

RUN = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedavg/seed1"


def training(root):
    """Return the process id of the training that runs in ``root``, None if there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"train" in words and os.readlink(process / "cwd") == str(root):
                return int(process.name)
        except OSError:
            continue
    return None


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds the process to kill in /proc")
def test_a_killed_training_goes_on_from_its_checkpoint(project):
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].update(rounds=40, checkpoint_every=1),
    )
    folder = project.root / RUN
    (folder / "run.json").unlink()
    command = [sys.executable, "-m", "snakemake", "--cores", "1", f"{RUN}/run.json"]
    log = (project.root / "log").open("w")
    running = subprocess.Popen(command, cwd=project.root, stdout=log, stderr=log)
    deadline = time.monotonic() + 300
    while not (folder / NAME).exists():
        assert time.monotonic() < deadline and running.poll() is None, (project.root / "log").read_text()
        time.sleep(0.02)
    os.kill(training(project.root), signal.SIGKILL)
    assert running.wait(timeout=600) == 0, (project.root / "log").read_text()
    assert "Trying to restart" in (project.root / "log").read_text()
    last = (project.root / f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/fedavg/seed1.log").read_text()
    assert "of its checkpoint" in last
    assert json.loads((folder / "run.json").read_text())["rounds_done"] == 40
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]
