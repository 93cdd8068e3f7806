"""Jobs that fork from a warm process: the same files, statuses and signals as jobs that start by themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import description, write_problem

from flatfed.engine.job import checkpoint
from flatfed.workflow import warm

SRC = Path(__file__).parents[2] / "src"
CORE = max(os.sched_getaffinity(0))


@pytest.fixture
def folder(tmp_path_factory):
    """Return a folder with a problem and one for the socket, whose path must be short."""
    path = tmp_path_factory.mktemp("w")
    write_problem(path)
    (path / "s").mkdir()
    return path


def start(folder: Path, out: str, src: Path = SRC, preexec_fn=None, **changes) -> subprocess.Popen:
    spec = description("fedsmoo", **{"precision": "float32", **changes})
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(spec), "--dataset", "data"]
    command += ["--partition", "partition.npz", "--out", out, "--device", "cpu", "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(src), warm.VARIABLE: f"{folder / 's'}:{os.getpid()}"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=preexec_fn
    )


def servers(folder: Path) -> list[int]:
    """Return the ids of the warm processes of ``folder``: its server and the forks that are alive."""
    found = subprocess.run(["pgrep", "-f", f"flatfed.workflow.warm {folder / 's'}"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def wait_for(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def end_servers(folder):
    yield
    for process in servers(folder):
        os.kill(process, signal.SIGKILL)


def test_a_fork_writes_what_a_process_of_its_own_writes(folder, monkeypatch):
    for out in ("first", "second"):
        job = start(folder, out)
        assert job.wait() == 0 and "4 rounds on cpu" in job.stderr.read()
    assert len(servers(folder)) == 1, "both forked from one server"
    monkeypatch.setattr(warm, "VARIABLE", "UNUSED")
    alone = start(folder, "alone")
    assert alone.wait() == 0
    for name in ("model.safetensors", "run.json"):
        contents = [(folder / out / name).read_bytes() for out in ("first", "second", "alone")]
        assert name == "run.json" or contents[0] == contents[1] == contents[2]


def test_what_is_on_the_disk_is_run(folder):
    """The server outlives an edit of the source; the next fork runs the edited one."""
    src = folder / "src"
    shutil.copytree(SRC, src)
    assert start(folder, "before", src).wait() == 0
    edited = src / "flatfed/algorithms/fedsmoo.py"
    edited.write_text(edited.read_text().replace("return e\n", "return -e\n"))
    assert start(folder, "after", src).wait() == 0
    one, other = (json.loads((folder / out / "run.json").read_text()) for out in ("before", "after"))
    assert one["code_digest"] != other["code_digest"]
    weights = [(folder / out / "model.safetensors").read_bytes() for out in ("before", "after")]
    assert weights[0] != weights[1] and len(servers(folder)) == 1


def test_status_and_message_of_a_refusal_come_back(folder):
    job = start(
        folder, "refused", dataset={"name": "problem", "classes": 4, "shape": [1, 8, 8], "mean": [0], "std": [1]}
    )
    assert job.wait() == 2
    assert "3 classes, but the run's 'problem' has 4" in job.stderr.read()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_job_that_is_ended_ends_its_fork(folder, number, status):
    assert start(folder, "warm-up").wait() == 0
    job = start(folder, "out", rounds=100_000)
    wait_for((folder / "out" / checkpoint.NAME).exists)
    assert len(servers(folder)) == 2
    job.send_signal(number)
    assert job.wait(timeout=30) == status
    wait_for(lambda: len(servers(folder)) == 1)
    said = job.stderr.read()
    assert ("the same command goes on from it" in said) == (number != signal.SIGKILL)
    assert "without a status" not in said and (folder / "out" / checkpoint.NAME).exists()


def test_a_fork_has_the_umask_priority_and_cores_of_its_job(folder):
    assert start(folder, "warm-up").wait() == 0
    before = os.umask(0o027)
    try:
        job = start(folder, "out", rounds=100_000, preexec_fn=lambda: (os.nice(3), os.sched_setaffinity(0, {CORE})))
    finally:
        os.umask(before)
    wait_for((folder / "out" / checkpoint.NAME).exists)
    assert (folder / "out" / checkpoint.NAME).stat().st_mode & 0o777 == 0o640
    server = min(servers(folder))
    (fork,) = set(servers(folder)) - {server}
    assert os.sched_getaffinity(fork) == {CORE}
    assert os.getpriority(os.PRIO_PROCESS, fork) == os.getpriority(os.PRIO_PROCESS, server) + 3
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=30) == 143


def test_only_the_first_job_waits_for_a_server_that_cannot_start(folder, monkeypatch):
    (folder / "flatfed").mkdir()
    (folder / "flatfed" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with pytest.raises(OSError, match="no server at"):
        warm._connect(folder / "s", str(os.getpid()))
    assert "No module named 'flatfed.workflow'" in next((folder / "s").glob("*.log")).read_text()
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(OSError, match="could not be started before"):
        warm._connect(folder / "s", str(os.getpid()))


def test_a_server_ends_with_its_owner(folder):
    owner = subprocess.Popen(["sleep", "60"])
    command = [sys.executable, "-m", "flatfed.workflow.warm", str(folder / "s/x.socket"), str(owner.pid)]
    server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(SRC)})
    wait_for((folder / "s/x.socket").exists)
    owner.kill()
    owner.wait()
    assert server.wait(timeout=10) == 0 and not (folder / "s/x.socket").exists()


def test_jobs_with_several_threads_fork_too(folder, monkeypatch):
    """The libraries that torch loads start their threads by these variables, and a process with threads cannot fork."""
    for name in warm.THREADS:
        monkeypatch.setenv(name, "4")
    assert start(folder, "out").wait() == 0
    assert len(servers(folder)) == 1


def test_a_path_too_long_for_a_socket_is_not_tried(folder, monkeypatch):
    monkeypatch.setattr(warm, "LONGEST", 10)
    with pytest.raises(OSError, match="too long a path"):
        warm._connect(folder / "s", str(os.getpid()))
    assert servers(folder) == []


def test_without_a_folder_for_the_socket_a_job_starts_by_itself(folder):
    (folder / "s").rmdir()
    assert start(folder, "out").wait() == 0
    assert servers(folder) == []
