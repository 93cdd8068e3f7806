"""One process to a run folder: a training waits for another one and takes what it finishes; other commands stop.

The file of a dead process stops nobody.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatfed import algorithms, cli
from flatfed.commands import train_run
from flatfed.commands.train_run import check_versions
from flatfed.engine.job.train import train as train_without_lock
from flatfed.errors import FlatFedError
from flatfed.runs import lock
from flatfed.runs.run_config import RunConfig
from flatfed.runs.versions import of_run
from harness import description, write_problem
from repository import SRC

HOLD = "from flatfed.runs import lock\nwith lock.held('run'):\n    print(flush=True)\n    input()"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    return tmp_path / "run"


@pytest.fixture
def other(folder):
    """Another process, which holds the lock."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=folder.parent, env=environment, **pipes) as process:
        assert process.stdout.readline() == b"\n"
        yield process
        process.kill()


def test_the_second_stops_and_says_who_is_there_and_what_to_do(folder, other):
    with pytest.raises(FlatFedError) as refused, lock.held(folder):
        pass
    who = rf"process {other.pid} on {re.escape(socket.gethostname())}, since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d"
    remedy = "Wait until it is done, or end it .* the same command then goes on. Nothing was changed"
    assert re.match(rf"{folder}: .*{who}.*{remedy}", str(refused.value))
    other.communicate(b"\n")
    with lock.held(folder):
        pass
    assert not folder.exists() or not list(folder.iterdir())


def test_one_that_is_just_going_is_waited_for_and_its_file_stops_nobody(folder, other, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 60.0)
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: other.kill())
    assert (folder / lock.NAME).read_text().startswith(f"process {other.pid} ")
    with lock.held(folder):
        assert other.wait() == -signal.SIGKILL
        assert (folder / lock.NAME).read_text().startswith(f"process {os.getpid()} ")
    assert not (folder / lock.NAME).exists()


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


FILES = {"metrics.csv", "model.safetensors", "run.json"}
PLACE = ("--run", "run.json", "--dataset", "data", "--partition", "partition.npz", "--out", "out")
TRAIN = ["train", *PLACE, "--device", "cpu"]


def spec(**changes):
    return description("fedavg", precision="float32", rounds=2, **changes)


@pytest.fixture
def out(tmp_path, monkeypatch):
    """The run folder of a training in the current folder; a waiting training prints a line at each attempt."""
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(spec()))
    monkeypatch.chdir(tmp_path)
    for seconds in ("PATIENCE", "NOTICES"):
        monkeypatch.setattr(lock, seconds, 0.0)
    return tmp_path / "out"


@pytest.fixture
def train_while_held(out, monkeypatch):
    """Yield a function that trains while another holds the lock; after two attempts, this one ``happens`` and ends."""

    def train(happens):
        attempts = iter((False, True))
        with contextlib.ExitStack() as other, monkeypatch.context() as patch:

            def sleep(seconds):
                if next(attempts):
                    patch.undo()
                    happens()
                    other.close()

            patch.setattr(lock.time, "sleep", sleep)
            other.enter_context(lock.held("out"))
            return cli.main(TRAIN)

    return train


def finish(**changes):
    """Train the run, with changed settings, without a lock."""
    train_without_lock(RunConfig(**spec(**changes)), "data", "partition.npz", "out", device="cpu")


def files(folder):
    """Return (content, time) of each of a run's files."""
    return {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in FILES}


def test_the_second_waits_and_takes_the_run_that_the_first_finishes(train_while_held, out, capsys):
    """Its execution settings may differ; the wait names the holder again and again."""
    before = {}

    def happens():
        finish(rows=3)
        before.update(files(out))

    assert train_while_held(happens) == 0
    text, after = capsys.readouterr().err, files(out)
    assert text.count(f"out: another process trains this run (process {os.getpid()} on ") == 2
    assert "; this one waits" in text and "seed3: finished already" in text
    assert {path.name for path in out.iterdir()} == {*FILES, ".finished"}
    for name, (content, written) in before.items():
        assert after[name][0] == content and after[name][1] > written, "as if it had trained"


def test_a_finished_run_is_linked_back_unless_the_call_forces_it(out, monkeypatch, capsys):
    """As Snakemake calls it: it has deleted the outputs. Another rule or run after -R forces nothing."""

    def trained(*forced):
        before = time.time()
        for name in FILES if out.exists() else ():
            (out / name).unlink()
        monkeypatch.setenv(train_run.FORCED, json.dumps([before, *forced]))
        assert cli.main(TRAIN) == 0
        return (out / "run.json").read_bytes()

    first = trained()
    assert trained() == trained("table", "other/run.json") == first
    assert {path.name for path in out.iterdir()} == {*FILES, ".finished"}
    for name in FILES:
        assert (out / name).samefile(out / ".finished" / name)
    second = trained("train")
    third = trained("./out/metrics.csv")
    assert first != second != third
    assert (out / ".previous/run.json").read_bytes() == second
    assert cli.main(TRAIN) == 0
    assert (out / "run.json").read_bytes() == third, "the retry of a forced training that this call has finished"
    capsys.readouterr()
    monkeypatch.delenv(train_run.FORCED)
    shutil.rmtree(out / ".previous")  # it would serve
    content = bytearray((out / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (out / "model.safetensors").write_bytes(content)
    assert cli.main(TRAIN) == 0
    assert "from the start" in capsys.readouterr().err, "a damaged run"


def test_a_rerun_waits_for_nobody(out, capsys):
    assert cli.main(TRAIN) == 0
    with lock.held("again"):
        assert cli.main(["rerun", "out", "--out", "again", "--dataset", "data"]) == 2
        assert "flatfed rerun: again: another process trains this run" in capsys.readouterr().err
        assert [path.name for path in (out.parent / "again").iterdir()] == [lock.NAME]


def test_other_versions_than_the_calls_are_refused_before_the_first_round(out, outside, capsys):
    """The file of a user's algorithm that changed after Snakemake started; a comment is no change."""
    file = outside.write("mine", "class Mine(FedAvg):\n    def evaluated(self, server):\n        return {}\n")
    run = description("mine", precision="float32", rounds=2)
    versions = json.dumps(of_run(RunConfig(**run)))
    Path("run.json").write_text(json.dumps(run))
    command = [*TRAIN, "--versions", versions]
    file.write_text(f"{file.read_text()}    weight = 3\n")
    algorithms.FILES.imports.clear()
    assert cli.main(command) == 2
    assert f"{file} changed after Snakemake started; nothing was trained: call" in capsys.readouterr().err
    assert not out.exists()
    file.write_text("# A comment.\n" + file.read_text().removesuffix("    weight = 3\n"))
    algorithms.FILES.imports.clear()
    check_versions(RunConfig(**run), json.loads(versions))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_waiting_training_ends_on_a_signal_and_claims_no_gpu(out, monkeypatch, number):
    gpus = cli._file("train").gpus
    monkeypatch.setattr(gpus, "demanded", lambda device: "cuda")
    monkeypatch.setattr(gpus, "claimed", lambda: pytest.fail("claimed"))
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: os.kill(os.getpid(), number))
    with lock.held("out"):
        assert cli.main(TRAIN) == 128 + number
        assert [path.name for path in out.iterdir()] == [lock.NAME]
