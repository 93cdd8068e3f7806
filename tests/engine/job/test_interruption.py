"""Trainings that are killed, told to stop, or find a damaged checkpoint end with the bytes of an undisturbed one."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job import checkpoint, interruption
from flatfed.engine.job.checkpoint import Checkpoint
from flatfed.engine.job.interruption import Stopped
from flatfed.engine.simulation import Simulation
from flatfed.errors import DataError
from harness import IDENTITY, description, interrupted_job, job, lines, needs, simulation, write_problem
from repository import SRC
from samples import FEW, sampled

SEED = 20261121


@pytest.mark.parametrize("name", sampled(["fedavg", "fedsmoo", "dfedsam"]))
def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(tmp_path, name):
    """20 moments each for an algorithm without client state, one with it and one without a server."""
    write_problem(tmp_path)
    spec = {"precision": "float32", "rounds": 12, "checkpoint_every": 2, **needs(name)}
    (tmp_path / "run.json").write_text(json.dumps(description(name, **spec)))
    print(f"seed of the moments: {SEED}")
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), "run.json", str(tmp_path), str(SEED)]
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    moments = json.loads(done.stdout)["moments"]
    inside = [moment for moment in moments if moment["kind"] != "seconds"]
    assert len(moments) == 20 and len(inside) >= 5
    for moment in moments:
        print(moment)
        assert moment["status"] == -signal.SIGKILL and moment["ended"] == 0 and moment["same"]
        # Killed while it removed a finished run's checkpoint, it is made from the start, and the finished one kept.
        kept = [".previous"] if moment["finished"] and moment["round"] is None else []
        assert moment["files"] == [*kept, "metrics.csv", "model.safetensors", "run.json"]
        assert moment["sessions"] == ([0] if moment["round"] is None else [0, moment["round"]])
    assert any(name.endswith(".part") for moment in inside for name in moment["left"])


class Signals:
    """Sends this process signal ``number`` at the calls ``moments`` of the engine's check; ``calls`` so far."""

    def __init__(self, monkeypatch, moments=(), number: int = signal.SIGTERM):
        self.calls = 0
        check = interruption.check

        def counted() -> None:
            self.calls += 1
            if self.calls in moments:
                os.kill(os.getpid(), number)
            check()

        monkeypatch.setattr(interruption, "check", counted)


def stopped_job(monkeypatch, moments, *arguments, number: int = signal.SIGTERM, **changes) -> Stopped:
    with monkeypatch.context() as patch, pytest.raises(Stopped) as stopped:
        Signals(patch, moments, number)
        job(*arguments, **changes)
    return stopped.value


def assert_same(parts: Path, whole: Path) -> None:
    assert lines(parts) == lines(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert sorted(path.name for path in parts.iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]
    probes = [json.loads((folder / "run.json").read_text())["probes"] for folder in (parts, whole)]
    assert [{**probe, "seconds": 0} for probe in probes[0]] == [{**probe, "seconds": 0} for probe in probes[1]]


PROBE = {"every": 2, "rho": 0.05, "m": 8, "images": 16}


@pytest.mark.parametrize("executor", sampled(["sequential", "stacked"], ["stacked"]))
@pytest.mark.parametrize("name", sampled(["fedavg", "fedsmoo", "fedlesam", "dfedsam", "dispfl"], FEW))
def test_told_to_stop_a_run_goes_on_from_its_last_whole_round(tmp_path, monkeypatch, capsys, name, executor):
    """Stopped at seeded moments: in a local step, in an evaluation, in a probe, before it aggregates or mixes."""
    executors = {"cpu": executor, "cuda": executor}
    changes = dict(executor=executors, checkpoint_every=100, probe=PROBE, evaluation=EVALUATION)
    whole = job(tmp_path, name, "whole", **changes)
    with monkeypatch.context() as patch:
        count = Signals(patch)
        job(tmp_path, name, "counted", **changes)
    moments = random.Random(SEED).sample(range(1, count.calls + 1), 5)
    print(f"seed {SEED}: moments {moments} of {count.calls}")
    for moment in moments:
        capsys.readouterr()
        out = f"parts{moment}"
        stopped = stopped_job(monkeypatch, [moment], tmp_path, name, out, **changes)
        assert stopped.status == 143
        assert "stopped by SIGTERM after round" in capsys.readouterr().err
        again = stopped_job(monkeypatch, [1], tmp_path, name, out, number=signal.SIGINT, **changes)
        assert again.status == 130
        assert_same(job(tmp_path, name, out, **changes), whole)


@pytest.mark.parametrize("name", ["fedsmoo", "dfedsam", "dispfl"])
def test_wherever_a_round_is_stopped_its_clients_are_as_before(tmp_path, monkeypatch, name):
    """At every single check of a round whose clients train all at once: nothing is written back before the last."""
    spec = description(name, evaluation={"every": 100, "sets": ["test"], "batch_size": 7}, **needs(name))
    run = simulation(tmp_path, spec)
    run.advance()
    before = {key: values.clone() for key, values in run.state.store.items()}
    checks = Signals(monkeypatch)
    run.advance()
    stops = checks.calls
    assert stops > 4 and any(not torch.equal(before[key], values) for key, values in run.state.store.items())
    for moment in range(1, stops + 1):
        run = simulation(tmp_path, spec)
        run.advance()
        calls = []

        def stop(moment=moment, calls=calls):
            calls.append(None)
            if len(calls) == moment:
                raise Stopped(15)

        monkeypatch.setattr(interruption, "check", stop)
        if name == "dispfl":
            run.mix()
            run.state.settle()
            run.mixed = True
            before = {key: values.clone() for key, values in run.state.store.items()}
        with pytest.raises(Stopped):
            run.advance()
        assert all(torch.equal(before[key], values) for key, values in run.state.store.items()), moment


EVALUATION = {"every": 2, "sets": ["test", "train", "nodes"], "batch_size": 7}


def test_a_stop_loses_no_round_that_was_whole(tmp_path, monkeypatch):
    """The round that it stops in is undone; the ones before it are in the checkpoint, in no regular one."""
    rounds = []
    changes = dict(checkpoint_every=100, executor={"cpu": "sequential", "cuda": "sequential"})
    whole = job(tmp_path, "fedsmoo", "whole", **changes)
    advance = Simulation.advance

    def told_in_round_3(self):
        rounds.append(self.round)
        if self.round == 2:
            write = self.state._write
            monkeypatch.setattr(self.state, "_write", lambda: (write(), os.kill(os.getpid(), 15)))
            before = {name: values.clone() for name, values in self.state.store.items()}
            with pytest.raises(Stopped):
                advance(self)
            assert all(torch.equal(before[name], values) for name, values in self.state.store.items())
            raise Stopped(15)
        return advance(self)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Simulation, "advance", told_in_round_3)
        job(tmp_path, "fedsmoo", "parts", **changes)
    parts = job(tmp_path, "fedsmoo", "parts", **changes)
    assert_same(parts, whole)
    assert [s["from_round"] for s in json.loads((parts / "run.json").read_text())["sessions"]] == [0, 2]


def test_a_run_ended_between_its_last_file_and_the_end_of_its_checkpoint_is_not_its_own_previous(tmp_path, monkeypatch):
    changes = dict(checkpoint_every=1)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "finish", lambda self, run: None)
        job(tmp_path, "fedavg", "run", **changes)
    whole = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / ".model.safetensors.killed.part").touch()
    assert (tmp_path / "run" / checkpoint.NAME).exists()
    again = job(tmp_path, "fedavg", "run", **changes)
    assert sorted(path.name for path in again.iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]
    assert (again / "model.safetensors").read_bytes() == whole


def test_a_run_that_is_made_again_keeps_the_one_before_even_if_it_is_the_same(tmp_path, monkeypatch):
    """Forced again by somebody who doubts it, and killed on the way there: what was doubted is there to compare."""
    changes = dict(checkpoint_every=1)
    folder = job(tmp_path, "fedavg", "run", **changes)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    stopped_job(monkeypatch, [4], tmp_path, "fedavg", "run", **changes)
    assert (folder / checkpoint.NAME).exists()
    job(tmp_path, "fedavg", "run", **changes)
    assert {path.name: path.read_bytes() for path in (folder / ".previous").iterdir()} == first
    again = json.loads((folder / "run.json").read_text())
    assert (
        len(again["sessions"]) == 2
        and again["sessions"][0]["began"] > json.loads(first["run.json"])["sessions"][0]["began"]
    )


def test_told_to_stop_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """The write goes to its end, and nothing is lost."""
    changes = dict(checkpoint_every=1, rounds=8)
    whole = job(tmp_path, "fedsmoo", "whole", **changes)
    for moment in (1, 3, 5):
        calls = []
        write = Checkpoint.write

        def told(self, run, moment=moment, calls=calls, write=write):
            calls.append(None)
            if len(calls) == moment:
                os.kill(os.getpid(), signal.SIGTERM)
            return write(self, run)

        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(Checkpoint, "write", told)
            job(tmp_path, "fedsmoo", f"parts{moment}", **changes)
        assert_same(job(tmp_path, "fedsmoo", f"parts{moment}", **changes), whole)


def damage(folder: Path, kind: str) -> None:
    """Do to the checkpoint in ``folder`` what ``kind`` says."""
    manifest = folder / checkpoint.MANIFEST
    segment = sorted(folder.glob("*.safetensors"))[-1]
    content = segment.read_bytes()
    if kind == "a file is cut short":
        segment.write_bytes(content[:-100])
    elif kind == "a file is missing":
        segment.unlink()
    elif kind == "a header":
        segment.write_bytes(content[:8] + b"x" * 40 + content[48:])
    elif kind == "a file of zeros":
        segment.write_bytes(bytes(len(content)))
    elif kind == "the manifest is cut short":
        manifest.write_bytes(manifest.read_bytes()[:-100])
    elif kind == "a vector is missing":
        segment.write_bytes(save(dict(list(load_file(segment).items())[1:])))
    elif kind == "a vector of another size":
        segment.write_bytes(save({name: value[:-1] for name, value in load_file(segment).items()}))
    elif kind == "of an earlier version":
        manifest.write_text(json.dumps({"sha256": "0", "content": {"index": {}, "files": {}, "about": {}}}))
    elif kind == "garbage":
        manifest.write_bytes(b"\xff not a checkpoint")
    else:
        manifest.write_text("[]")


#: What is said of a checkpoint of another run or version.
NAMED = {
    "of an earlier version": "an earlier version of FlatFed wrote it",
    "other parameters": "it is of another run: learning_rate is 0.05, here ",
    "other code": "it is of another run: another versions",
    "other data": "it is of another run: another dataset",
}


@pytest.mark.parametrize(
    "kind",
    sampled(
        [
            *("a file is cut short", "a file is missing", "a header", "a file of zeros", "a vector is missing"),
            *("a vector of another size", "the manifest is cut short", "garbage", "another JSON"),
            "of an earlier version",
            *("other parameters", "other code", "other data"),
        ],
        ["a file is cut short", "a vector is missing", "of an earlier version", "other code"],
    ),
)
def test_what_is_not_this_runs_whole_checkpoint_is_set_aside(tmp_path, monkeypatch, capsys, kind):
    whole = job(tmp_path, "fedsmoo", "whole", rounds=5)
    other = {"learning_rate": 0.05} if kind == "other parameters" else {}
    with monkeypatch.context() as patch:
        if kind.startswith("other "):
            write = Checkpoint.__init__
            change = {"other code": {"versions": {"engine": 0}}, "other data": {"dataset_digest": "0"}}.get(kind, {})
            patch.setattr(
                Checkpoint,
                "__init__",
                lambda self, out, identity, *more: write(self, out, replace(identity, **change), *more),
            )
        interrupted_job(patch, tmp_path, "fedsmoo", "parts", rounds=5, **other)
    folder = tmp_path / "parts" / checkpoint.FOLDER
    if not kind.startswith("other "):
        damage(folder, kind)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    # Told to stop before the first step, the second call leaves what it set aside where it can be looked at.
    capsys.readouterr()
    stopped_job(monkeypatch, [1], tmp_path, "fedsmoo", "parts", rounds=5)
    said = capsys.readouterr().err
    assert f"is set aside as {checkpoint.STALE}: " in said and "from the start" in said
    assert NAMED.get(kind, "") in said
    aside = tmp_path / "parts" / checkpoint.STALE
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == before
    assert_same(job(tmp_path, "fedsmoo", "parts", rounds=5), whole)


def test_a_checkpoint_of_a_removed_executor_stays_and_names_the_remedies(tmp_path, monkeypatch):
    interrupted_job(monkeypatch, tmp_path, "fedavg", "run")
    folder = tmp_path / "run" / checkpoint.FOLDER
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.delitem(EXECUTORS, "stacked")
    remedy = "resume with the version of FlatFed that wrote it, or remove this folder to train from the start"
    with pytest.raises(DataError) as refused:
        job(tmp_path, "fedavg", "run")
    assert str(refused.value) == f"{folder}: this version has no executor 'stacked'; {remedy}"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["fedsmoo", "fedlesam"])
def test_a_checkpoint_has_a_file_for_each_client_and_writes_only_changed_ones(tmp_path, name):
    spec = description(name, sampling={"scheme": "fixed", "fraction": 0.34})
    run, kept = simulation(tmp_path, spec), checkpoint.Checkpoint(tmp_path, IDENTITY)
    folder, vectors, before = tmp_path / checkpoint.FOLDER, len(run.state.store), {}
    for _ in range(6):
        clients = set(run.sample().tolist())
        run.advance()
        kept.write(run)
        files = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}
        new = {file.partition(".")[0] for file in files.keys() - before.keys()}
        assert all(files[file] == before[file] for file in files.keys() & before.keys())
        assert {key for key in new if key.startswith("client-")} == {f"client-{c}" for c in clients if vectors}
        assert sum(file.startswith("client-") for file in files) == run.state.touched.sum() * (vectors > 0)
        rounds = run.state.received.snapshots if run.state.received else ()
        assert {file for file in map(kept.files.get, kept.files)} == set(files) and len(rounds) == sum(
            file.startswith("received-") for file in files
        )
        before = files


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """Return the rounds after which a checkpoint is written, in order."""
    rounds, write = [], Checkpoint.write

    def noted(self, run):
        rounds.append(run.round)
        return write(self, run)

    monkeypatch.setattr(Checkpoint, "write", noted)
    return rounds


def test_rows_of_several_rounds_do_not_wait_longer_than_a_signals_grace(tmp_path, monkeypatch, written):
    """Where they would take too long to write after a signal, they are written before the next regular checkpoint."""
    monkeypatch.setattr(checkpoint, "GRACE", 0.0)
    changes = dict(checkpoint_every=100, rounds=8, sampling={"scheme": "fixed", "fraction": 0.34})
    job(tmp_path, "fedsmoo", "rows", **changes)
    assert written == list(range(1, 8)), "every round: two together would take too long"
    written.clear()
    job(tmp_path, "fedavg", "none", **changes)
    assert written == []
    job(tmp_path, "dfedsam", "all", **{**changes, "sampling": {"scheme": "all"}})
    assert written == [], "every round changes all rows: waiting adds nothing"


def test_planned_checkpoints_take_a_small_share_of_the_time(tmp_path, monkeypatch, written):
    """On a GPU, rounds are shorter than the writing of their clients' vectors."""
    monkeypatch.setattr(checkpoint, "SHORT", 0.02)
    monkeypatch.setattr(checkpoint, "SPEED", 1.0)
    monkeypatch.setattr(checkpoint, "GRACE", float("inf"))
    for name in ("fedsmoo", "fedadam"):  # clients' vectors; the server's alone
        job(tmp_path, name, f"slow disk, {name}", checkpoint_every=1, rounds=4)
    assert written == []
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))
    job(tmp_path, "fedsmoo", "any share", checkpoint_every=1, rounds=4)
    assert written == [1, 2, 3]
    written.clear()
    monkeypatch.setattr(checkpoint, "SPEED", 1e12)
    monkeypatch.setattr(checkpoint, "SHORT", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e-3)
    job(tmp_path, "fedsmoo", "a slow first one", checkpoint_every=1, rounds=4)
    assert written == [1], "its seconds count, not only its bytes"


def test_a_later_signal_ends_the_process_and_handlers_are_put_back(tmp_path):
    code = (
        "import os, signal, sys, time\n"
        "from flatfed.engine.job import interruption as i\n"
        "before = signal.getsignal(signal.SIGTERM)\n"
        "with i.signals_noted():\n"
        "    for number in (15, 15, 2): os.kill(os.getpid(), number)\n"
        "    try: i.check()\n"
        "    except i.Stopped as stopped: assert stopped.status == 143, stopped\n"
        "assert signal.getsignal(signal.SIGTERM) is before\n"
        "i.check()\n"
        "with i.signals_noted():\n"
        "    os.kill(os.getpid(), 15)\n"
        "    i.BURST = 0.0\n"
        "    os.kill(os.getpid(), 2)\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SRC)}, timeout=50)
    assert done.returncode == 130


def training_on_a_terminal(folder, *prefix):
    """Return (process, terminal) of a training that leads the session of its terminal, after its first rounds."""
    write_problem(folder)
    spec = description("fedavg", precision="float32", rounds=100_000, checkpoint_every=100_000)
    (folder / "run.json").write_text(json.dumps(spec))
    words = ["train", "--run", "run.json", "--partition", "partition.npz", "--out", "out", "--dataset", "data"]
    master, slave = os.openpty()
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "flatfed", *words, "--device", "cpu"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(SRC)}, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    said = b""
    while b": round 3" not in said:
        said += os.read(master, 1000)
    return process, master


def test_a_closed_terminal_stops_a_run_as_sigterm_does(tmp_path):
    process, terminal = training_on_a_terminal(tmp_path)
    os.close(terminal)
    assert process.wait(timeout=30) == 128 + signal.SIGHUP
    assert (tmp_path / "out" / checkpoint.NAME).exists()
    assert json.loads((tmp_path / "out" / checkpoint.NAME).read_text())["callbacks"]["Outputs"]["lines"]


def test_with_nohup_a_run_outlives_its_terminal(tmp_path):
    process, terminal = training_on_a_terminal(tmp_path, "env", "--ignore-signal=HUP")
    os.close(terminal)
    time.sleep(1)
    before = json.loads((tmp_path / "out/progress.json").read_text())["round"]
    time.sleep(2)
    assert process.poll() is None
    assert json.loads((tmp_path / "out/progress.json").read_text())["round"] > before
    process.terminate()
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    assert (tmp_path / "out" / checkpoint.NAME).exists()
