"""The profile for clusters on a real Slurm of one node: one GPU to queue for, jobs that are stopped, the same table."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from project import RUNS, SNAKEMAKE, TABLE, clean, log_of, wait_for
from slurm import one_node, unavailable

from flatfed.engine.job import progress
from flatfed.runs import lock
from samples import full

ROWS = ["fedavg", "fedsmoo"]
ROUNDS = 100
LOG = log_of(f"{RUNS}/{{}}/seed1")

# What happens to a training, in this order, and how; each to another job of Slurm's.
EVENTS = {
    "cancelled": ("scancel", "{job}"),
    "preempted": ("sbatch", "--partition=urgent", "--gpus=1", "--mem=10", "--output=/dev/null", "--wrap=true"),
    "requeued": ("scontrol", "requeue", "{job}"),
}

# The questions come sooner than the profile asks them: this scheduler has nothing else to do.
QUICK = ("--slurm-init-seconds-before-status-checks", "1", "--slurm-status-command", "squeue", "--latency-wait", "5")
COMMAND = (*SNAKEMAKE, "--workflow-profile", "profiles/slurm", *QUICK)


@pytest.fixture
def cluster(tmp_path_factory):
    if reason := unavailable():
        pytest.skip(f"no Slurm can be started here: {reason}")
    pytest.importorskip("snakemake_executor_plugin_slurm")
    with one_node(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def longer(project):
    """A project whose table has two rows, not trained yet, that train long enough to be stopped, but under ten minutes.

    What a stopped one goes on from is what it wrote on SIGTERM.
    """
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
    project.preview(rounds=ROUNDS)
    for folder in ("logs", "results/preview/runs", "results/preview/tables"):
        shutil.rmtree(project.root / folder)
    return project


def started(project, *command):
    """Start a command; return its process and the file with its output."""
    log = project.root / f"{len(command)}.log"
    with log.open("w") as file:
        return subprocess.Popen(command, cwd=project.root, env=clean(), stdout=file, stderr=file), log


class Trainings:
    """What becomes of the two trainings, which ask for the one GPU: looked at again and again, and disturbed.

    Of all ``events``: the first training is cancelled, the second makes way for an urgent job, the cancelled one's
    second attempt is requeued by hand. ``hit``: event -> (Slurm job, row); ``stopped``: row -> rounds after which it
    said that it was stopped.
    """

    def __init__(self, project, cluster, events):
        self.project, self.root, self.cluster, self.events = project, project.root, cluster, events
        self.queued, self.hit, self.stopped = set(), {}, {row: set() for row in ROWS}

    def look(self):
        jobs = self.cluster.jobs()
        states = {job: state for job, state, _ in jobs}
        waiting = {job for job, state, why in jobs if state == "PENDING" and why == "Resources"}
        self.queued |= waiting if "RUNNING" in states.values() else set()
        for row in ROWS:
            with contextlib.suppress(FileNotFoundError):
                text = (self.root / LOG.format(row)).read_text()
                self.stopped[row] |= set(map(int, re.findall(r"stopped by SIGTERM after round (\d+)", text)))
        begun = [row for row in ROWS if (state := progress.read(self.root / RUNS / row / "seed1")) and state.pace]
        active = [job for job in states if states[job] == "RUNNING" and job not in dict(self.hit.values())]
        if self.queued and begun and active and len(self.hit) < len(self.events):
            event = self.events[len(self.hit)]
            self.hit[event] = (active[0], begun[0])
            self.cluster.ask(*(word.format(job=active[0]) for word in EVENTS[event]))

    def sessions(self, row):
        """Return the rounds from which the sessions of a row's training went on."""
        return self.project.sessions(f"{RUNS}/{row}/seed1")


def test_a_cancelled_training_goes_on_in_its_next_attempt(project, cluster):
    run, log = f"{RUNS}/fedsmoo/seed1", project.root / LOG.format("fedsmoo")
    project.preview({"fedsmoo": {"rho": 0.3}})
    project.pause()
    call, output = started(project, *COMMAND, "--config", "device=cpu", "--", f"{run}/run.json")

    def state():
        return f"{cluster.state()}\n{output.read_text()}"

    wait_for((project.root / run / "paused").exists, state)
    ((job, _, _),) = cluster.jobs()
    assert cluster.ask("squeue", "-h", "-o", "%l") == "10:00", "the time that the rule requests"
    cluster.ask("scancel", job)
    wait_for(lambda: "stopped by SIGTERM after round 1" in log.read_text(), state)
    (project.root / run / "go").touch()
    wait_for(lambda: call.poll() is not None, state)
    assert call.returncode == 0, state()
    assert output.read_text().count("Trying to restart job") == 1
    assert [state for _, state, _ in cluster.jobs()] == ["CANCELLED", "COMPLETED"] and project.sessions(run) == [0, 1]


@full
def test_a_table_by_slurm_is_the_local_one_though_jobs_were_cancelled_preempted_and_requeued(longer, cluster, tmp_path):
    local, target = longer.clone(tmp_path / "local"), f"results/preview/tables/{TABLE}.csv"
    here, _ = started(local, *SNAKEMAKE, "--cores", "1", target)
    refused = longer.call(*COMMAND, target)
    assert refused.returncode != 0 and "say --config device=cuda (or device=cpu)" in refused.text
    # A training on the CPU that asks for the GPU all the same: there is only the name of one.
    running, log = started(longer, *COMMAND, "--config", "device=cpu", "--set-resources", "train:gpu=1", "--", target)
    trainings = Trainings(longer, cluster, list(EVENTS))

    def state():
        return f"{cluster.state()}\n{trainings.hit}\n{log.read_text()}"

    wait_for(lambda: trainings.look() or running.poll() is not None, state)
    assert running.returncode == 0, state()
    assert trainings.queued, "the second training waits for the one GPU"
    jobs, rows = zip(*(trainings.hit[event] for event in trainings.events), strict=True)
    assert set(rows[:2]) == set(ROWS) and rows[2] == rows[0]
    assert (jobs[0], "CANCELLED") in {job[:2] for job in cluster.jobs()}
    assert [cluster.restarts(job) for job in jobs] == [0, 1, 1]
    assert log.read_text().count("Trying to restart job") == 1, "Snakemake tries again what was cancelled, Slurm others"
    for row in ROWS:
        rounds = trainings.sessions(row)
        assert len(rounds) == 1 + rows.count(row) and rounds[0] == 0 and rounds == sorted(rounds)
        assert trainings.stopped[row] == set(rounds[1:]), "each went on from the round after which SIGTERM stopped it"
    assert here.wait() == 0 and longer.table() == local.table()


@full
def test_the_call_after_a_cancelled_training_makes_it_alone_and_edits_reach_no_job(longer, cluster):
    """The second training waits for the one GPU, so its job starts after a file was half written."""
    file, table = longer.root / f"config/tables/{TABLE}.yaml", f"results/preview/tables/{TABLE}.csv"
    options, content = ("--retries", "0", "--config", "device=cpu", "--set-resources", "train:gpu=1"), file.read_text()
    running, log = started(longer, *COMMAND, *options, "--", table)
    trainings = Trainings(longer, cluster, ["cancelled"])

    def cancelled():
        begun = (longer.root / RUNS / row / "seed1" / progress.PROGRESS_FILE for row in ROWS)
        if not trainings.hit and any(map(Path.exists, begun)):
            file.write_text(content[: len(content) // 2] + "\nrows: [")
        trainings.look()
        return running.poll() is not None

    wait_for(cancelled, lambda: f"{cluster.state()}\n{trainings.hit}\n{log.read_text()}")
    assert running.returncode != 0 and f"config/tables/{TABLE}.yaml: not YAML" in longer.refused("--dry-run")
    file.write_text(content)
    (_, row) = trainings.hit["cancelled"]
    assert longer.planned("--config", "device=cpu", "--", table) == {
        "train": {f"{RUNS}/{row}/seed1"},
        "table": {"results/preview/tables"},
    }
    longer.make("--config", "device=cpu", "--", table)
    assert trainings.sessions(row) == [0, *trainings.stopped[row]]
    assert [trainings.sessions(other) for other in ROWS if other != row] == [[0]]


@full
def test_what_a_job_of_a_killed_snakemake_trains_is_taken_by_the_next_call(longer, cluster):
    """Killed with -9, unlocked and called again while Slurm's job trains: it is trained once, and nothing is lost."""
    target, folder = f"{RUNS}/fedavg/seed1/run.json", longer.root / RUNS / "fedavg/seed1"
    text = longer.root / LOG.format("fedavg")
    command = (*COMMAND, "--config", "device=cpu", "--retries", "0")
    longer.make("--config", "device=cpu", "--", target)
    older = longer.record(folder)
    first, log = started(longer, *command, "-R", target, "--", target)
    wait_for((folder / progress.PROGRESS_FILE).exists, log.read_text)
    trains = int(re.match(r"process (\d+) on ", (folder / lock.NAME).read_text())[1])
    os.kill(trains, signal.SIGSTOP)
    try:
        first.kill()
        first.wait()
        assert longer.call(*command, "--unlock").returncode == 0
        second, log = started(longer, *command, "--", target)
        held = f"another process trains this run (process {trains} on "
        wait_for(lambda: text.exists() and held in text.read_text(), log.read_text)
    finally:
        os.kill(trains, signal.SIGCONT)
    assert second.wait(timeout=300) == 0, f"{cluster.state()}\n{log.read_text()}"
    run = longer.record(folder)
    assert run["finished"] > older["finished"] and run["sessions"][0]["began"] > older["finished"]
    assert [session["from_round"] for session in run["sessions"]] == [0] and run["rounds_done"] == ROUNDS
    assert "finished already" in text.read_text()
    assert (folder / "metrics.csv").exists() and not (folder / ".checkpoint").exists()
