"""Trainings that are killed or stopped by a signal end with the bytes of an undisturbed one."""

import multiprocessing
import os
import pty
import random
import shutil
import signal
import sys
import termios
import time

import pytest

from flatfed.engine.job import checkpoint, interruption, progress
from flatfed.engine.job import train as training
from flatfed.engine.job.checkpoint import Checkpoint, read_manifest
from flatfed.engine.job.interruption import Stopped
from flatfed.engine.job.reporter import Reporter
from flatfed.runs.record import FILES
from flatfed.runs.run_config import RunConfig
from harness import assert_same, description, job, needs, sessions, train_command, write_checkpoints, write_problem
from samples import FEW, full, sampled

SEED = 20261121


def train_to_end(folder, name, out, limit, changes) -> None:
    """Train; the kernel ends the process after ``limit`` seconds of its processor time, perhaps in a write."""
    checkpoint.PERIOD, checkpoint.SPARING = 0.0, 0
    signal.setitimer(signal.ITIMER_PROF, limit)
    began = time.process_time()
    job(folder, name, out, **changes)
    (folder / "seconds").write_text(str(time.process_time() - began))


EVERY = [pytest.param(name, 20, marks=full) for name in ("fedavg", "fedsmoo", "dfedsam")]


@pytest.mark.parametrize(("name", "times"), [("fedsmoo", 4), *EVERY])
def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(tmp_path, name, times):
    """An algorithm without client state, one with it and one without a server."""
    write_problem(tmp_path)
    changes = {"rounds": 8, **needs(name)}

    def forked(out, limit=0.0) -> int:
        arguments = tmp_path, name, out, limit, changes
        process = multiprocessing.get_context("fork").Process(target=train_to_end, args=arguments)
        process.start()
        process.join()
        return process.exitcode

    draw, whole = random.Random(f"{SEED} {name}"), tmp_path / "whole"
    for out in ("first", "whole"):  # the first loads what is loaded lazily
        assert forked(out) == 0
    seconds = float((tmp_path / "seconds").read_text())
    for number in range(times):
        out, status, limit = tmp_path / f"killed{number}", 0, seconds * draw.uniform(0.02, 0.95)
        while status == 0:
            shutil.rmtree(out, ignore_errors=True)  # it had ended before the moment, which is now earlier
            status = forked(out, limit)
            limit *= 0.8
        assert status == -signal.SIGPROF
        path, finished = out / checkpoint.NAME, (out / "run.json").exists()
        resumable = read_manifest(path)["simulation"]["round"] if path.exists() else None
        print(name, limit, resumable)
        assert forked(out) == 0
        # Killed after it removed a finished run's checkpoint, it starts again and keeps the finished run.
        kept = [".previous"] if finished and resumable is None else []
        assert sorted(path.name for path in out.iterdir()) == [".finished", *kept, *sorted(FILES)]
        assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
        assert sessions(out) == ([0] if resumable is None else [0, resumable])


class Signals:
    """Sends this process signal ``number`` at call ``moment`` of the engine's check; ``calls`` so far."""

    def __init__(self, monkeypatch, moment: int | None = None, number: int = signal.SIGTERM):
        self.calls = 0
        check = interruption.check

        def counted() -> None:
            self.calls += 1
            if self.calls == moment:
                os.kill(os.getpid(), number)
            check()

        monkeypatch.setattr(interruption, "check", counted)


def stopped_job(monkeypatch, moment: int, *arguments, number: int = signal.SIGTERM, **changes) -> int:
    """Run a job until its check number ``moment``; return its exit status."""
    with monkeypatch.context() as patch, pytest.raises(Stopped) as stopped:
        Signals(patch, moment, number)
        job(*arguments, **changes)
    return stopped.value.status


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked"], ["stacked"]))
@pytest.mark.parametrize("name", sampled(["fedavg", "fedsmoo", "fedlesam", "dfedsam", "dispfl"], FEW))
def test_told_to_stop_a_run_goes_on_from_its_last_whole_round(tmp_path, monkeypatch, capsys, name, executor):
    """Stopped at seeded moments: in a local step, in an evaluation, in a probe, before it aggregates or mixes."""
    changes = {"executor": {"cpu": executor, "cuda": executor}}
    changes["probe"] = {"every": 2, "rho": 0.05, "m": 8, "images": 16}
    changes["evaluation"] = {"every": 2, "sets": ["test", "train", "nodes"], "batch_size": 7}
    with monkeypatch.context() as patch:
        count = Signals(patch)
        whole = job(tmp_path, name, "whole", **changes)
    moments = random.Random(SEED).sample(range(1, count.calls + 1), 3)
    print(f"seed {SEED}: moments {moments} of {count.calls}")
    for moment in moments:
        capsys.readouterr()
        out = f"parts{moment}"
        assert stopped_job(monkeypatch, moment, tmp_path, name, out, **changes) == 143
        assert "stopped by SIGTERM after round" in capsys.readouterr().err
        assert stopped_job(monkeypatch, 1, tmp_path, name, out, number=signal.SIGINT, **changes) == 130
        assert_same(job(tmp_path, name, out, **changes), whole)


def test_a_run_that_is_made_again_keeps_the_one_before(tmp_path, monkeypatch):
    """Even if it is the same: who doubts a run and forces another can compare both, also if the second is interrupted.

    A run that is ended between its last file and the end of its checkpoint is not its own previous one.
    """
    write_checkpoints(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "finish", lambda self, run: None)
        folder = job(tmp_path, "fedavg", "run")
    weights = (folder / "model.safetensors").read_bytes()
    assert (folder / checkpoint.NAME).exists()
    job(tmp_path, "fedavg", "run")
    first = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert sorted(first) == sorted(FILES) and first["model.safetensors"] == weights
    stopped_job(monkeypatch, 4, tmp_path, "fedavg", "run")
    job(tmp_path, "fedavg", "run")
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == first
    assert len(sessions(folder)) == 2


def test_an_undone_edit_brings_the_replaced_run_back(tmp_path, monkeypatch):
    def call(rate):
        config = RunConfig(**description("fedavg", precision="float32", learning_rate=rate))
        training.train(config, tmp_path / "data", tmp_path / "partition.npz", tmp_path / "run", device="cpu", since=0.0)
        return {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}

    write_problem(tmp_path)
    runs = {rate: call(rate) for rate in (0.1, 0.2)}
    monkeypatch.setattr(training.Job, "run", None)
    assert [call(rate) == runs[rate] for rate in (0.1, 0.2, 0.2, 0.1)] == [True] * 4
    assert runs[0.1]["model.safetensors"] != runs[0.2]["model.safetensors"]
    (tmp_path / "run/.finished").rename(tmp_path / "run/.finished.aside")  # killed in the exchange
    assert call(0.1) == runs[0.1] and call(0.2) == runs[0.2]
    (tmp_path / "run/.previous").rename(tmp_path / "run/.finished.aside")
    assert call(0.1) == runs[0.1]


def test_a_later_signal_ends_the_process_and_handlers_are_put_back(monkeypatch):
    before, ends = signal.getsignal(signal.SIGTERM), []
    monkeypatch.setattr(os, "_exit", ends.append)
    with interruption.signals_noted():
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        with pytest.raises(Stopped, match="SIGTERM"):
            interruption.check()
        assert ends == [], "a burst counts as one"
        monkeypatch.setattr(interruption, "BURST", 0.0)
        os.kill(os.getpid(), signal.SIGINT)
        assert ends == [130]
    assert signal.getsignal(signal.SIGTERM) is before
    interruption.check()


@pytest.mark.parametrize("survives", [False, pytest.param(True, marks=full)], ids=["closed", "nohup"])
def test_a_closed_terminal_stops_a_run_as_sigterm_does_unless_it_is_ignored(tmp_path, survives):
    """A training that leads the session of its terminal, which closes after its first rounds."""
    write_problem(tmp_path)
    process, terminal = pty.fork()
    termios.tcsetwinsize(terminal if process else 0, (24, 120))
    if process == 0:
        status = 1
        try:
            sys.stderr = os.fdopen(2, "w", buffering=1)  # the terminal, not pytest's
            Reporter.interval = Reporter.share = 0.0  # a line per round
            signal.signal(signal.SIGHUP, signal.SIG_IGN if survives else signal.SIG_DFL)
            status = train_command(tmp_path, "out", rounds=100_000)
        finally:
            os._exit(status)
    output = b""
    try:
        while b" 3/100000" not in output:
            output += os.read(terminal, 1000)
        os.close(terminal)
        if survives:
            before = progress.read(tmp_path / "out").round
            while progress.read(tmp_path / "out").round == before:
                time.sleep(0.1)  # the file changes once a second
                assert os.waitpid(process, os.WNOHANG) == (0, 0)
            os.kill(process, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except BaseException:
        os.kill(process, signal.SIGKILL)
        raise
    assert status == 128 + (signal.SIGTERM if survives else signal.SIGHUP)
    assert read_manifest(tmp_path / "out" / checkpoint.NAME)["callbacks"]["Outputs"]["lines"]
