"""One process to a run folder: the second stops and says what to do, a dead one's file stops nobody."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from flatfed.errors import FlatFedError
from flatfed.runs import lock
from repository import SRC

HOLD = "from flatfed.runs import lock\nwith lock.held('run'):\n    print(flush=True)\n    input()"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    return tmp_path / "run"


@pytest.fixture
def other(folder):
    """Another process, which holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_stops_and_says_who_is_there_and_what_to_do(folder, other):
    with pytest.raises(FlatFedError) as refused, lock.held(folder):
        pass
    who = rf"process {other.pid} on {re.escape(socket.gethostname())}, since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d"
    assert re.search(who, str(refused.value))
    assert str(folder) in str(refused.value)
    assert "Wait until it is done, or end it" in str(refused.value)
    assert "the same command then goes on. Nothing was changed" in str(refused.value)
    other.communicate(b"\n")
    with lock.held(folder):
        assert (folder / lock.NAME).read_text().startswith(f"process {os.getpid()} on ")
    assert not folder.parent.joinpath("run").exists() or not list(folder.iterdir())


def test_a_killed_process_s_file_stops_nobody(folder, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (folder / lock.NAME).read_text().startswith(f"process {other.pid} ")
    with lock.held(folder):
        assert (folder / lock.NAME).read_text().startswith(f"process {os.getpid()} ")
    assert not (folder / lock.NAME).exists()


def test_one_that_is_just_going_is_waited_for(folder, other, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 60.0)
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: other.kill())
    with lock.held(folder):
        assert other.wait() == -signal.SIGKILL


def test_a_file_that_its_holder_removes_meanwhile_is_no_lock(folder, monkeypatch):
    """Two that wait for one file must not both get it: the second's file is gone when the first is through."""
    flock, taken = fcntl.flock, []

    def flock_of_a_file_that_goes(descriptor, how):
        flock(descriptor, how)
        if not taken:
            (folder / lock.NAME).unlink()
        taken.append(os.fstat(descriptor).st_ino)

    folder.mkdir()
    monkeypatch.setattr(lock.fcntl, "flock", flock_of_a_file_that_goes)
    with lock.held(folder):
        assert len(taken) == 2 and (folder / lock.NAME).stat().st_ino == taken[-1]


@pytest.mark.parametrize("before", [False, True])
def test_a_refused_run_leaves_no_folder_that_was_not_there(folder, before):
    if before:
        folder.mkdir()
    with pytest.raises(ZeroDivisionError), lock.held(folder):
        raise ZeroDivisionError
    assert folder.exists() == before


def test_a_file_system_without_locks_is_named_and_does_not_stop_the_run(folder, monkeypatch, capsys):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with lock.held(folder):
        pass
    assert f"{folder / '.lock'}: no locks on this file system" in capsys.readouterr().err


def test_a_folder_of_somebody_else_is_an_error_that_the_command_explains(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / ".lock"))

    monkeypatch.setattr(lock.os, "open", refuse)
    with pytest.raises(PermissionError), lock.held(folder):
        pass
