"""A training that is ended loses nothing: Snakemake keeps its checkpoint, and the retry or the next call goes on."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import SPLIT

from flatfed.engine.job.checkpoint import NAME
from flatfed.runs import lock
from samples import full, sampled

RUN = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedavg/seed1"
LOG = f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/fedavg/seed1.log"
COMMAND = [sys.executable, "-m", "snakemake", "--cores", "1", "--retries", "1", f"{RUN}/run.json"]

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds the process to end in /proc")


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


@pytest.fixture
def begun(project):
    """Return a Snakemake of ``project`` whose training has written a checkpoint; it is a process group of its own."""
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].update(rounds=40, checkpoint_every=1),
    )
    folder = project.root / RUN
    (folder / "run.json").unlink()
    with (project.root / "log").open("w") as log:
        running = subprocess.Popen(COMMAND, cwd=project.root, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 300
    while not (folder / NAME).exists():
        assert time.monotonic() < deadline and running.poll() is None, (project.root / "log").read_text()
        time.sleep(0.02)
    yield running
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)


def assert_went_on(root):
    assert "of its checkpoint" in (root / LOG).read_text()
    assert json.loads((root / RUN / "run.json").read_text())["rounds_done"] == 40
    assert sorted(path.name for path in (root / RUN).iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]


@pytest.mark.parametrize("number", sampled([signal.SIGKILL, signal.SIGTERM], [signal.SIGTERM]), ids=str)
def test_the_retry_of_an_ended_training_goes_on_from_its_checkpoint(project, begun, number):
    os.kill(training(project.root), number)
    assert begun.wait(timeout=600) == 0, (project.root / "log").read_text()
    assert "Trying to restart" in (project.root / "log").read_text()
    assert_went_on(project.root)


@pytest.mark.parametrize("send", sampled([os.killpg, os.kill], [os.killpg]))
def test_a_call_after_sigint_goes_on_from_the_checkpoint(project, begun, send):
    """A terminal sends SIGINT to Snakemake, its shells and its trainings alike; an IDE's stop button to Snakemake."""
    send(begun.pid, signal.SIGINT)
    assert begun.wait(timeout=120) != 0
    assert "stopped by SIGINT" in (project.root / LOG).read_text()
    assert (project.root / RUN / NAME).exists() and training(project.root) is None
    done = snakemake(project.root)
    assert done.returncode == 0, done.text
    assert_went_on(project.root)


def snakemake(root, *arguments):
    """Call Snakemake for the run as another person would; return exit status and both streams in ``.text``."""
    done = subprocess.run([*COMMAND, *arguments], cwd=root, capture_output=True, text=True)
    done.text = done.stdout + done.stderr
    return done


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def held(project, begun):
    """Return the process that trains, stopped in the middle; whoever comes second waits for it but a moment."""
    project.edit("src/flatfed/runs/lock.py", ("PATIENCE = 5.0", "PATIENCE = 0.1"))
    words = (project.root / RUN / lock.NAME).read_text()
    process = int(re.match(r"process (\d+) on ", words)[1])
    os.kill(process, signal.SIGSTOP)
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def waiting(root, held):
    """Return a second Snakemake whose training waits for the one that is ``held``."""
    with (root / "second").open("w") as log:
        second = subprocess.Popen(COMMAND, cwd=root, stdout=log, stderr=log)
    said, deadline = f"{RUN}: another process trains this run (process {held} on ", time.monotonic() + 120
    while not (root / LOG).exists() or said not in (root / LOG).read_text():
        assert time.monotonic() < deadline and second.poll() is None, (root / "second").read_text()
        time.sleep(0.05)
    return second


def assert_trained_once(root, second):
    assert second.wait(timeout=600) == 0, (root / "second").read_text()
    run = json.loads((root / RUN / "run.json").read_text())
    assert run["rounds_done"] == 40 and [session["from_round"] for session in run["sessions"]] == [0]
    assert "finished already" in (root / LOG).read_text()


def test_after_a_sigkill_of_snakemake_no_lock_loses_or_doubles_a_training(project, begun, held):
    project.edit("config/config.yaml", ("keep_models: all", "keep_models: needed"))
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    locked = snakemake(project.root)
    assert locked.returncode != 0 and "It can be removed with the --unlock argument" in locked.text
    assert snakemake(project.root, "--unlock").returncode == 0
    before = contents(project.root / RUN)
    second = waiting(project.root, held)
    assert contents(project.root / RUN) == before
    os.kill(held, signal.SIGCONT)
    assert_trained_once(project.root, second)


@full
def test_of_two_snakemakes_at_once_one_trains(project, begun, held):
    locked = snakemake(project.root)
    assert locked.returncode != 0 and "no other Snakemake process is trying to create the same files" in locked.text
    other = project.make("--force", "results/errata.html")
    assert "1 of 1 steps (100%) done" in other.text, "of other files, both work"
    # Snakemake takes all locks of a folder away when one call ends: from here on, ours alone is left.
    second = waiting(project.root, held)
    os.kill(held, signal.SIGCONT)
    assert begun.wait(timeout=600) == 0, (project.root / "log").read_text()
    assert_trained_once(project.root, second)
