"""A training by hand where another one trains: it waits, takes what the other one finishes, and disturbs nobody."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from flatfed import cli
from flatfed.engine.job.train import train as train_without_lock
from flatfed.runs import lock
from flatfed.runs.run_config import RunConfig
from harness import description, write_problem
from repository import SRC

IMPATIENT = "import sys; from flatfed import cli; from flatfed.runs import lock\nlock.PATIENCE = lock.NOTICES = 0.2\n"
FILES = {"metrics.csv", "model.safetensors", "run.json"}
PLACE = ("--run", "run.json", "--dataset", "data", "--partition", "partition.npz", "--out", "out")
WORDS = ["train", *PLACE, "--device", "cpu"]


def spec(**changes):
    return description("fedavg", precision="float32", rounds=2, **changes)


@pytest.fixture
def problem(tmp_path, monkeypatch):
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(spec()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    return tmp_path


@contextlib.contextmanager
def waiting(folder):
    """Yield a training that waits for the lock of out, which this process holds until the end of the context."""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    with (folder / "said").open("w") as said, lock.held("out"):
        command = [sys.executable, "-c", f"{IMPATIENT}sys.exit(cli.main(sys.argv[1:]))", *WORDS]
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=said)
        deadline = time.monotonic() + 60
        while (folder / "said").read_text().count("\n") < 2:
            assert time.monotonic() < deadline and process.poll() is None, (folder / "said").read_text()
            time.sleep(0.05)
        yield process
    process.wait(timeout=60)


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_second_waits_and_takes_the_run_that_the_first_finishes(problem):
    """Its execution settings may differ; the wait names the holder again and again."""
    other = spec(checkpoint_every=7)
    with waiting(problem) as process:
        train_without_lock(RunConfig(**other), "data", "partition.npz", "out", device="cpu")
        before = {name: (problem / "out" / name).read_bytes() for name in FILES}
        written = times(problem / "out")
    said = (problem / "said").read_text()
    assert process.returncode == 0, said
    assert said.count(f"out: another process trains this run (process {os.getpid()} on ") >= 2
    assert "; this one waits" in said and "seed3: finished already" in said
    assert {name: (problem / "out" / name).read_bytes() for name in FILES} == before
    assert all(time > written[name] for name, time in times(problem / "out").items()), "as if it had trained"
    assert {path.name for path in (problem / "out").iterdir()} == FILES


def test_a_run_of_other_settings_is_not_taken(problem):
    with waiting(problem) as process:
        train_without_lock(RunConfig(**spec(lr=0.01)), "data", "partition.npz", "out", device="cpu")
    assert process.returncode == 0
    assert json.loads((problem / "out/run.json").read_text())["description"] == spec()
    assert (problem / "out/.previous/run.json").exists()


def test_a_run_that_was_finished_before_the_call_is_trained_again(problem):
    assert cli.main(WORDS) == 0
    first = json.loads((problem / "out/run.json").read_text())
    with waiting(problem) as process:
        pass  # the other one was ended
    assert process.returncode == 0
    assert json.loads((problem / "out/run.json").read_text())["finished"] > first["finished"]
    assert "from the start" in (problem / "said").read_text()


def test_a_job_that_began_after_the_run_was_finished_takes_it_if_its_snakemake_began_before(problem, monkeypatch):
    """A job of Slurm may wait for the one GPU, not for the lock."""
    monkeypatch.setenv(lock.CALLED, str(time.time()))
    assert cli.main(WORDS) == 0
    first = (problem / "out/run.json").read_bytes()
    assert cli.main(WORDS) == 0
    assert (problem / "out/run.json").read_bytes() == first
    monkeypatch.setenv(lock.CALLED, str(time.time()))
    assert cli.main(WORDS) == 0
    assert (problem / "out/run.json").read_bytes() != first


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_waiting_training_ends_on_a_signal(problem, number):
    before = times(problem / "out") if (problem / "out").exists() else {}
    with waiting(problem) as process:
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=20) == 128 + number
        assert time.monotonic() - began < 3
        assert set(times(problem / "out")) == {*before, lock.NAME}


def test_a_waiting_training_claims_no_gpu(problem, monkeypatch):
    monkeypatch.setattr(cli._file("train").gpus, "demanded", lambda device: "cuda")
    monkeypatch.setattr(cli._file("train").gpus, "claimed", lambda: pytest.fail("claimed"))
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGTERM))
    with lock.held("out"):
        assert cli.main(WORDS) == 143


def test_a_run_is_not_made_again_where_another_trains(problem, capsys):
    assert cli.main(WORDS) == 0
    rerun = ["rerun", "out", "--out", "again", "--dataset", "data"]
    capsys.readouterr()
    with lock.held("again"):
        assert cli.main(rerun) == 2
        assert "flatfed rerun: again: another process trains this run" in capsys.readouterr().err
        assert [path.name for path in (problem / "again").iterdir()] == [lock.NAME]
