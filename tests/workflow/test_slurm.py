"""The profile for clusters on a real Slurm of one node: what is stopped goes on, a killed call loses nothing."""

import subprocess

import pytest
from project import RUNS, SNAKEMAKE, TABLE, clean, log_of, wait_for
from slurm import one_node, unavailable

from samples import full

RUN, OTHER = f"{RUNS}/fedsmoo/seed1", f"{RUNS}/fedavg/seed1"
TARGET = f"{RUN}/run.json"

#: What happens to a training -> the command, and state and restarts of each job at the end.
EVENTS = {
    "cancelled": ("scancel {job}", [("CANCELLED", 0), ("COMPLETED", 0)]),
    "requeued": ("scontrol requeue {job}", [("COMPLETED", 1)]),
    "preempted": (
        "sbatch --partition=urgent --gpus=1 --mem=10 --output=/dev/null --wrap=true",
        [("COMPLETED", 1), ("COMPLETED", 0)],
    ),
}

# The questions come sooner than the profile asks them: the second after 18 s (a short job has ended), then ever later.
QUICK = ("--slurm-init-seconds-before-status-checks", "4", "--slurm-status-command", "squeue", "--latency-wait", "5")
COMMAND = (*SNAKEMAKE, "--workflow-profile", "profiles/slurm", *QUICK)


@pytest.fixture
def cluster(tmp_path_factory):
    if reason := unavailable():
        pytest.skip(f"no Slurm can be started here: {reason}")
    pytest.importorskip("snakemake_executor_plugin_slurm")
    with one_node(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def paused(project):
    """A project whose two rows have other settings than their runs, and whose trainings wait after the first round."""
    project.preview({"fedsmoo": {"rho": 0.3}, "fedavg": {"learning_rate": 0.05}})
    project.pause()
    return project


class Call:
    """A call of Snakemake by Slurm, with the words of ``arguments`` and its targets."""

    def __init__(self, project, cluster, arguments, target=TARGET):
        self.file, self.cluster = project.root / f"{len(arguments)}.log", cluster
        command = (*COMMAND, "--config", "device=cpu", *arguments.split(), "--", target)
        with self.file.open("w") as log:
            self.process = subprocess.Popen(command, cwd=project.root, env=clean(), stdout=log, stderr=log)

    @property
    def text(self):
        return self.file.read_text()

    def wait_for(self, condition):
        wait_for(condition, lambda: f"{self.cluster.state()}\n{self.text}")

    def end(self):
        """Return the status with which it ends."""
        self.wait_for(lambda: self.process.poll() is not None)
        return self.process.returncode


def go(project, *runs):
    for run in runs:
        (project.root / run / "go").touch()


def test_a_training_is_a_job_with_the_time_that_its_rule_requests(paused, cluster):
    go(paused, RUN)
    call = Call(paused, cluster, "--set-resources train:gpu=1")
    assert call.end() == 0, call.text
    assert cluster.ask("squeue", "-h", "-t", "all", "-o", "%T %l") == "COMPLETED 10:00"
    assert paused.sessions(RUN) == [0]


@full
@pytest.mark.parametrize("event", EVENTS)
def test_a_training_that_slurm_stops_goes_on(paused, cluster, event):
    """It is on the CPU but asks for the GPU, of which there is only the name."""
    command, jobs = EVENTS[event]
    call, log = Call(paused, cluster, "--set-resources train:gpu=1"), paused.root / log_of(RUN)
    call.wait_for((paused.root / RUN / "paused").exists)
    ((job, _, _),) = cluster.jobs()
    cluster.ask(*command.format(job=job).split())
    call.wait_for(lambda: "stopped by SIGTERM after round 1" in log.read_text())
    go(paused, RUN)
    assert call.end() == 0, call.text
    assert call.text.count("Trying to restart job") == (event == "cancelled"), "Slurm tries the others again"
    assert [(state, cluster.restarts(job)) for job, state, _ in sorted(cluster.jobs())] == jobs
    assert paused.sessions(RUN) == [0, 1]


@full
def test_the_call_after_a_cancelled_training_makes_it_alone_and_edits_reach_no_job(paused, cluster):
    """The second training begins after a file was half written."""
    file, table = paused.root / f"config/tables/{TABLE}.yaml", f"results/preview/tables/{TABLE}.csv"
    content, folders = file.read_text(), {paused.root / run: run for run in (RUN, OTHER)}
    assert "say --config device=cuda (or device=cpu)" in paused.call(*COMMAND, table).text
    call = Call(paused, cluster, "--retries 0 --jobs 1", table)
    call.wait_for(lambda: any((folder / "paused").exists() for folder in folders))
    (cancelled,) = (run for folder, run in folders.items() if (folder / "paused").exists())
    file.write_text(content[: len(content) // 2] + "\nrows: [")
    cluster.ask("scancel", cluster.jobs()[0][0])
    call.wait_for(lambda: "stopped by SIGTERM" in (paused.root / log_of(cancelled)).read_text())
    go(paused, RUN, OTHER)
    assert call.end() != 0 and f"config/tables/{TABLE}.yaml: not YAML" in paused.refused("--dry-run")
    file.write_text(content)
    made = paused.made("--config", "device=cpu", "--", table)
    assert made == {"train": {cancelled}, "table": {"results/preview/tables"}}
    assert {run: paused.sessions(run) for run in (RUN, OTHER)} == {RUN: [0], OTHER: [0], cancelled: [0, 1]}
