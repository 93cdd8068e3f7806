"""The profile for clusters on a real Slurm of one node: one GPU to queue for, jobs that are stopped, the same table."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from project import COLUMN, SPLIT, TABLE
from slurm import Slurm, unavailable

from flatfed.engine.job import progress
from flatfed.runs import lock
from samples import full, sampled

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"
ROWS = ["fedavg", "fedsmoo"]
ROUNDS = 100

# What happens to a training, in this order, and how; each to another job of Slurm's.
EVENTS = {
    "cancelled": ("scancel", "{job}"),
    "preempted": ("sbatch", "--partition=urgent", "--gpus=1", "--mem=10", "--output=/dev/null", "--wrap=true"),
    "requeued": ("scontrol", "requeue", "{job}"),
}

SNAKEMAKE = (sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm")

# The questions come sooner than the profile asks them: this scheduler has nothing else to do.
QUICK = ("--slurm-init-seconds-before-status-checks", "1", "--slurm-status-command", "squeue", "--latency-wait", "5")


@pytest.fixture
def cluster(tmp_path_factory):
    if reason := unavailable():
        pytest.skip(f"no Slurm can be started here: {reason}")
    pytest.importorskip("snakemake_executor_plugin_slurm")
    with Slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def longer(project):
    """The small project with two rows that train long enough to be stopped; all of it made, locally.

    They write no checkpoint of their own accord: what a stopped one goes on from is what it wrote on SIGTERM.
    """
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].update(rounds=ROUNDS, checkpoint_every=ROUNDS),
    )
    project.make()
    return project


class Trainings:
    """What becomes of the two trainings, which ask for the one GPU: looked at again and again, and disturbed.

    Of all ``events``: the first training is cancelled, the second makes way for an urgent job, the cancelled one's
    second attempt is requeued by hand. ``hit``: event -> (Slurm job, row); ``stopped``: row -> rounds after which it
    said that it was stopped.
    """

    def __init__(self, root, cluster, events):
        self.root, self.cluster, self.events = root, cluster, events
        self.queued, self.hit, self.stopped = set(), {}, {row: set() for row in ROWS}

    def look(self):
        jobs = self.cluster.jobs()
        states = {job: state for job, state, _ in jobs}
        waiting = {job for job, state, why in jobs if state == "PENDING" and why == "Resources"}
        self.queued |= waiting if "RUNNING" in states.values() else set()
        for row in ROWS:
            with contextlib.suppress(FileNotFoundError):
                text = (self.root / f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/{row}/seed1.log").read_text()
                self.stopped[row] |= set(map(int, re.findall(r"stopped by SIGTERM after round (\d+)", text)))
        begun = [row for row in ROWS if (state := progress.read(self.root / RUNS / row / "seed1")) and state.pace]
        active = [job for job in states if states[job] == "RUNNING" and job not in dict(self.hit.values())]
        if self.queued and begun and active and len(self.hit) < len(self.events):
            event = self.events[len(self.hit)]
            self.hit[event] = (active[0], begun[0])
            self.cluster.ask(*(word.format(job=active[0]) for word in EVENTS[event]))

    def sessions(self, row):
        """Return the rounds from which the sessions of a row's training went on."""
        run = json.loads((self.root / RUNS / row / "seed1/run.json").read_text())
        return [session["from_round"] for session in run["sessions"]]


@pytest.mark.parametrize("count", sampled([1, len(EVENTS)], [1]))
def test_a_table_by_slurm_is_the_local_one_though_jobs_were_cancelled_preempted_and_requeued(longer, cluster, count):
    table = longer.root / f"results/preview/tables/{TABLE}.csv"
    local = table.read_bytes()
    for made in ("runs", "tables"):
        shutil.rmtree(longer.root / "results/preview" / made)
    shutil.rmtree(longer.root / "logs")
    # A training on the CPU that asks for the GPU all the same: there is only the name of one.
    asked = ["--config", "device=cpu", "--set-resources", "train:gpu=1"]
    command = [*SNAKEMAKE, *QUICK, *asked]
    done = longer.call(*SNAKEMAKE, *QUICK)
    assert done.returncode != 0, "where jobs run elsewhere, the device is said"
    assert "say --config device=cuda (or device=cpu)" in done.stdout + done.stderr
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
    log = longer.root / "slurm.log"
    with log.open("w") as file:
        running = subprocess.Popen(command, cwd=longer.root, env=environment, stdout=file, stderr=file)
    trainings = Trainings(longer.root, cluster, list(EVENTS)[:count])
    deadline = time.monotonic() + 400
    while running.poll() is None:
        assert time.monotonic() < deadline, f"{cluster.said()}\n{trainings.hit}\n{log.read_text()}"
        trainings.look()
        time.sleep(0.05)  # between two looks
    text = log.read_text()
    assert running.returncode == 0, f"{cluster.said()}\n{trainings.hit}\n{text}"
    assert trainings.queued, "the second training waits for the one GPU"
    jobs, rows = zip(*(trainings.hit[event] for event in trainings.events), strict=True)
    assert count == 1 or (set(rows[:2]) == set(ROWS) and rows[2] == rows[0])
    assert (jobs[0], "CANCELLED") in {job[:2] for job in cluster.jobs()}
    assert [cluster.restarts(job) for job in jobs] == [0, 1, 1][:count]
    assert text.count("Trying to restart job") == 1, "Snakemake tries again what was cancelled, Slurm the others"
    for row in ROWS:
        rounds = trainings.sessions(row)
        assert len(rounds) == 1 + rows.count(row) and rounds[0] == 0 and rounds == sorted(set(rounds))
        assert trainings.stopped[row] == set(rounds[1:]), "each went on from the round after which SIGTERM stopped it"
    assert table.read_bytes() == local
    assert COLUMN in local.decode()


@full
def test_what_a_job_of_a_killed_snakemake_trains_is_taken_by_the_next_call(longer, cluster):
    """Killed with -9, unlocked and called again while Slurm's job trains: it is trained once, and nothing is lost."""
    longer.edit_yaml("config/config.yaml", lambda config: config.update(keep_models="needed"))
    folder, log = longer.root / RUNS / "fedavg/seed1", longer.root / "slurm.log"
    older = json.loads((folder / "run.json").read_text())
    command = [*SNAKEMAKE, *QUICK, "--config", "device=cpu", "--retries", "0"]
    target = ["--", f"{RUNS}/fedavg/seed1/run.json"]

    def call(*words):
        with log.open("w") as file:
            return subprocess.Popen([*command, *words, *target], cwd=longer.root, stdout=file, stderr=file)

    def wait_for(condition, running):
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline and running.poll() is None, f"{cluster.said()}\n{log.read_text()}"
            time.sleep(0.05)  # until the condition holds

    first = call("-R", f"{RUNS}/fedavg/seed1/run.json")
    wait_for((folder / progress.PROGRESS_FILE).exists, first)
    trains = int(re.match(r"process (\d+) on ", (folder / lock.NAME).read_text())[1])
    os.kill(trains, signal.SIGSTOP)
    try:
        first.kill()
        first.wait()
        assert longer.call(*command, "--unlock").returncode == 0
        second = call()
        text = longer.root / f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/fedavg/seed1.log"
        held = f"another process trains this run (process {trains} on "
        wait_for(lambda: text.exists() and held in text.read_text(), second)
    finally:
        os.kill(trains, signal.SIGCONT)
    assert second.wait(timeout=300) == 0, f"{cluster.said()}\n{log.read_text()}"
    run = json.loads((folder / "run.json").read_text())
    assert run["finished"] > older["finished"] and run["sessions"][0]["began"] > older["finished"]
    assert [session["from_round"] for session in run["sessions"]] == [0] and run["rounds_done"] == ROUNDS
    assert "finished already" in text.read_text()
    assert (folder / "metrics.csv").exists() and not (folder / ".checkpoint").exists()


def test_a_failing_training_is_tried_again_as_often_as_the_profile_says(project):
    """A rule's own number would go before the profile's, and be tried within each of Slurm's jobs besides."""
    pytest.importorskip("snakemake_executor_plugin_slurm")
    folder = project.root / RUNS / "fedavg/seed1"
    (folder / "run.json").unlink()
    begin = "    config = arguments.run_config("
    refusal = f"    from flatfed.errors import DataError\n    raise DataError('refused')\n{begin}"
    project.edit("src/flatfed/commands/train_run.py", (begin, refusal))
    here = ("--executor", "local", "--cores", "1", "--config", "device=cpu")
    done = project.call(*SNAKEMAKE, *here, "--", f"{RUNS}/fedavg/seed1/run.json")
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("Trying to restart job") == 4
    assert "flatfed train: refused" in done.stderr
