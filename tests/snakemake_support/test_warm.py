"""Jobs that fork from a warm process: the same files, statuses and signals as jobs that start by themselves."""

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
from harness import description, job, write_problem
from repository import SRC


def servers() -> list[int]:
    """Return the ids of this module's warm processes: its server and the forks that are alive."""
    pattern = f"flatfed/snakemake_support/warm.py {os.getpid()}$"
    output = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True).stdout
    return [int(line) for line in output.split()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a problem and the socket of a server, which the first job starts: its path must be short."""
    path = tmp_path_factory.mktemp("w")
    write_problem(path)
    yield path
    for process in servers():
        os.kill(process, signal.SIGKILL)


def start(folder: Path, out: str, src: Path = SRC, **changes) -> subprocess.Popen:
    spec = description("fedsmoo", **{"precision": "float32", **changes})
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(spec), "--dataset", "data"]
    command += ["--partition", "partition.npz", "--out", out, "--device", "cpu", "--threads", "1"]
    # The libraries that torch loads start so many threads, and a process with threads cannot fork.
    environment = {**os.environ, **dict.fromkeys(warm.THREADS, "4"), "PYTHONPATH": str(src)}
    environment[warm.VARIABLE] = f"{folder / 's'}:{os.getpid()}"
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)  # between two looks


def test_forks_write_what_a_process_of_its_own_writes_and_run_the_source_on_the_disk(folder):
    """The server outlives an edit of the source; the next fork runs the edited one."""
    src = folder / "src"
    shutil.copytree(SRC, src)
    alone = job(folder, "fedsmoo", "alone")
    for out in ("first", "second", "edited"):
        process = start(folder, out, src)
        assert process.wait() == 0 and "4 rounds on cpu" in process.stderr.read()
        wait_for(lambda: len(servers()) == 1)  # all forks have one server
        same = (alone / "model.safetensors").read_bytes() == (folder / out / "model.safetensors").read_bytes()
        version = json.loads((folder / out / "run.json").read_text())["versions"]["algorithm"]
        assert (same, version) == ((False, 2) if out == "edited" else (True, 1))
        file = src / "flatfed/algorithms/fedsmoo.py"
        changed = file.read_text().replace("return along(", "return -along(")
        if out == "second":
            file.write_text(changed.replace("    whole_rows = True", "    version = 2\n    whole_rows = True"))


def test_status_and_message_of_a_refusal_come_back(folder):
    process = start(folder, "refused", dataset={**description("fedsmoo")["dataset"], "classes": 4})
    assert process.wait() == 2 and "classes 3, but dataset 'problem' of the run has 4" in process.stderr.read()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_job_that_is_ended_ends_its_fork(folder, number, status):
    out = folder / f"ended by {number}"
    process = start(folder, out.name, rounds=100_000)
    wait_for((out / checkpoint.NAME).exists)
    assert len(servers()) == 2
    process.send_signal(number)
    assert process.wait(timeout=30) == status
    wait_for(lambda: len(servers()) == 1)
    output = process.stderr.read()
    assert ("the same command resumes from it" in output) == (number != signal.SIGKILL)
    assert "without a status" not in output and (out / checkpoint.NAME).exists()


def test_a_job_without_a_place_for_a_socket_or_a_server_that_starts_starts_by_itself(tmp_path_factory, monkeypatch):
    folder, before = tmp_path_factory.mktemp("w"), servers()
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for address in ("none/s", "s" * 108, "s"):
        monkeypatch.setenv(warm.VARIABLE, f"{folder / address}:{os.getpid()}")
        assert warm.run(["train"]) is None and servers() == before
    monkeypatch.setattr(subprocess, "Popen", None)
    assert warm.run(["train"]) is None, "no other job starts it again"


def test_a_server_ends_with_its_owner(folder):
    owner = subprocess.Popen(["sleep", "60"])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "o"))
        listener.listen()
        server = subprocess.Popen([sys.executable, "-P", warm.__file__, str(owner.pid)], stdin=listener)
    assert server.poll() is None
    owner.kill()
    owner.wait()
    assert server.wait(timeout=60) == 0
