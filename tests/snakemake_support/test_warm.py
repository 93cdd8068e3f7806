"""Jobs that fork from a warm process: the same files, statuses and signals as jobs that start by themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatfed.engine.job import checkpoint
from flatfed.snakemake_support import warm
from harness import description, write_problem
from repository import SRC


@pytest.fixture
def folder(tmp_path_factory):
    """Return a folder with a problem, in which the socket is to be: its path must be short."""
    path = tmp_path_factory.mktemp("w")
    write_problem(path)
    return path


def start(folder: Path, out: str, src: Path = SRC, name: str = "s", **changes) -> subprocess.Popen:
    spec = description("fedsmoo", **{"precision": "float32", **changes})
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(spec), "--dataset", "data"]
    command += ["--partition", "partition.npz", "--out", out, "--device", "cpu", "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(src), warm.VARIABLE: f"{folder / name}:{os.getpid()}"}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def servers() -> list[int]:
    """Return the ids of the warm processes of this test: its server and the forks that are alive."""
    pattern = f"flatfed/snakemake_support/warm.py {os.getpid()}$"
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def wait_for(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def end_servers():
    yield
    for process in servers():
        os.kill(process, signal.SIGKILL)


def test_a_fork_writes_what_a_process_of_its_own_writes(folder, monkeypatch):
    for out in ("first", "second"):
        job = start(folder, out)
        assert job.wait() == 0 and "4 rounds on cpu" in job.stderr.read()
    assert len(servers()) == 1, "both forked from one server"
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
    changed = edited.read_text().replace("return along(", "return -along(")
    edited.write_text(changed.replace("    whole_rows = True", "    version = 2\n    whole_rows = True"))
    assert start(folder, "after", src).wait() == 0
    one, other = (json.loads((folder / out / "run.json").read_text()) for out in ("before", "after"))
    assert (one["versions"]["algorithm"], other["versions"]["algorithm"]) == (1, 2)
    weights = [(folder / out / "model.safetensors").read_bytes() for out in ("before", "after")]
    assert weights[0] != weights[1] and len(servers()) == 1


def test_status_and_message_of_a_refusal_come_back(folder):
    job = start(
        folder, "refused", dataset={"name": "problem", "classes": 4, "shape": [1, 8, 8], "mean": [0], "std": [1]}
    )
    assert job.wait() == 2
    assert "classes 3, but dataset 'problem' of the run has 4" in job.stderr.read()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_job_that_is_ended_ends_its_fork(folder, number, status):
    assert start(folder, "warm-up").wait() == 0
    job = start(folder, "out", rounds=100_000)
    wait_for((folder / "out" / checkpoint.NAME).exists)
    assert len(servers()) == 2
    job.send_signal(number)
    assert job.wait(timeout=30) == status
    wait_for(lambda: len(servers()) == 1)
    said = job.stderr.read()
    assert ("the same command resumes from it" in said) == (number != signal.SIGKILL)
    assert "without a status" not in said and (folder / "out" / checkpoint.NAME).exists()


def test_where_the_server_cannot_start_a_job_starts_by_itself(folder, monkeypatch):
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv(warm.VARIABLE, f"{folder / 's'}:{os.getpid()}")
    assert warm.run(["train"]) is None and servers() == []
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", None)
        assert warm.run(["train"]) is None, "no other job starts it again"


def test_a_server_ends_with_its_owner(folder):
    owner = subprocess.Popen(["sleep", "60"])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()
        command = [sys.executable, "-P", warm.__file__, str(owner.pid)]
        server = subprocess.Popen(command, stdin=listener)
    time.sleep(1)
    assert server.poll() is None
    owner.kill()
    owner.wait()
    assert server.wait(timeout=30) == 0


def test_jobs_with_several_threads_fork_too(folder, monkeypatch):
    """The libraries that torch loads start their threads by these variables, and a process with threads cannot fork."""
    for name in warm.THREADS:
        monkeypatch.setenv(name, "4")
    assert start(folder, "out").wait() == 0
    assert len(servers()) == 1


@pytest.mark.parametrize("name", ["none/s", "s" * 108], ids=["no folder", "too long a path"])
def test_without_a_place_for_the_socket_a_job_starts_by_itself(folder, name):
    assert start(folder, "out", name=name).wait() == 0
    assert servers() == []
