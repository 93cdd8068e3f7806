"""A training that is ended loses nothing: Snakemake keeps its checkpoint, and the retry or the next call goes on."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from project import RUNS, SNAKEMAKE, contents, log_of, wait_for

from flatfed.engine.job.checkpoint import NAME
from flatfed.runs import lock
from flatfed.runs.record import FILES
from samples import full, sampled

RUN = f"{RUNS}/fedavg/seed1"
LOG = log_of(RUN)
COMMAND = (*SNAKEMAKE, "--cores", "1", "--retries", "1", f"{RUN}/run.json")
ROUNDS = 40

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
    project.preview(rounds=ROUNDS)
    project.write_checkpoints()
    (project.root / RUN / "run.json").unlink()
    with (project.root / "log").open("w") as log:
        running = subprocess.Popen(COMMAND, cwd=project.root, stdout=log, stderr=log, start_new_session=True)
    wait_for((project.root / RUN / NAME).exists, (project.root / "log").read_text)
    yield running
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)


@full
@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGKILL], [signal.SIGTERM]))
def test_the_retry_of_an_ended_training_and_a_call_after_sigint_go_on_from_its_checkpoint(project, begun, number):
    """A terminal sends SIGINT to Snakemake, its shells and its trainings alike."""
    root = project.root
    log, checkpoint = root / LOG, root / RUN / NAME
    os.kill(training(root), number)
    wait_for(lambda: log.exists() and "of its checkpoint" in log.read_text(), (root / "log").read_text)
    assert "Trying to restart" in (root / "log").read_text()
    os.killpg(begun.pid, signal.SIGINT)
    assert begun.wait(timeout=120) != 0
    assert "stopped by SIGINT" in log.read_text() and checkpoint.exists() and training(root) is None
    done = project.call(*COMMAND)
    assert done.returncode == 0 and "of its checkpoint" in log.read_text(), done.text
    run = json.loads((root / RUN / "run.json").read_text())
    begins = [session["from_round"] for session in run["sessions"]]
    assert run["rounds_done"] == ROUNDS and begins[0] == 0 < begins[1] <= begins[2] < ROUNDS
    assert sorted(path.name for path in (root / RUN).iterdir()) == [".finished", ".previous", *sorted(FILES)]


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
    said, log = f"{RUN}: another process trains this run (process {held} on ", root / LOG
    wait_for(lambda: log.exists() and said in log.read_text(), (root / "second").read_text)
    return second


def assert_trained_once(root, second):
    assert second.wait(timeout=600) == 0, (root / "second").read_text()
    run = json.loads((root / RUN / "run.json").read_text())
    assert run["rounds_done"] == ROUNDS and [session["from_round"] for session in run["sessions"]] == [0]
    assert "finished already" in (root / LOG).read_text()


def test_after_a_sigkill_of_snakemake_no_lock_loses_or_doubles_a_training(project, begun, held):
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    locked = project.call(*COMMAND)
    assert locked.returncode != 0 and "It can be removed with the --unlock argument" in locked.text
    assert project.call(*COMMAND, "--unlock").returncode == 0
    before = contents(project.root / RUN)
    second = waiting(project.root, held)
    assert contents(project.root / RUN) == before
    os.kill(held, signal.SIGCONT)
    assert_trained_once(project.root, second)


@full
def test_of_two_snakemakes_at_once_one_trains(project, begun, held):
    locked = project.call(*COMMAND)
    assert locked.returncode != 0 and "no other Snakemake process is trying to create the same files" in locked.text
    other = project.make("--force", f"{RUNS.replace('runs', 'partitions')}/seed1.npz")
    assert "1 of 1 steps (100%) done" in other.text, "of other files, both work"
    # Snakemake takes all locks of a folder away when one call ends: from here on, ours alone is left.
    second = waiting(project.root, held)
    os.kill(held, signal.SIGCONT)
    assert begun.wait(timeout=600) == 0, (project.root / "log").read_text()
    assert_trained_once(project.root, second)
