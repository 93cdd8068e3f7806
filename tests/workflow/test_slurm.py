"""The profile for clusters on a real Slurm of one node: what is stopped goes on, a killed call loses nothing."""

import re
import subprocess

import pytest
import yaml
from project import REPOSITORY, RUNS, SNAKEMAKE, TABLE, Project, clean, log_of, wait_for
from slurm import one_node, unavailable

from samples import full

RUN, OTHER = f"{RUNS}/fedsmoo/seed1", f"{RUNS}/fedavg/seed1"
TARGET = f"{RUN}/run.json"
TIMING = "results/paper/analysis/fedsmoo-cifar10/dir0.6-100/fedsmoo/timing.json"

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


MINE = "profiles/mine/config.yaml"


def blocks(language):
    """Return the blocks of a ``language`` on the page about Slurm."""
    page = (REPOSITORY / "docs/slurm.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def write_profile(project):
    """Write the profile of the page with its partitions, for a cluster without accounts; return its other blocks."""
    partitions, *others = map(yaml.safe_load, blocks("yaml"))
    del partitions["default-resources"]["slurm_account"]
    project.by_hand("cp -r profiles/slurm profiles/mine")
    project.edit_yaml(MINE, lambda profile: profile.update(partitions))
    return others


def request(project, block):
    """Add the request of a training in a ``block`` of the page to the profile."""
    resources = block["set-resources"]["train"]
    project.edit_yaml(MINE, lambda profile: profile["set-resources"]["train"].update(resources))


def requests(text):
    """Return number and rule -> its resources of the lines of the command on the page."""
    lines = (line.strip().split(": ") for line in text.splitlines())
    return {rule: set(resources.split(", ")) for rule, resources in lines}


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


def test_a_training_is_a_job_with_the_requests_of_its_rule_and_of_the_profile(paused, cluster):
    gres, _ = write_profile(paused)
    request(paused, gres)
    go(paused, RUN)
    call = Call(paused, cluster, "--workflow-profile profiles/mine")
    assert call.end() == 0, call.text
    jobs = cluster.ask("squeue", "-h", "-t", "all", "-o", "%T %P %f %l %m %b")
    assert jobs == "COMPLETED gpu a100 10:00 8000M gres:gpu:a100:1"
    assert paused.sessions(RUN) == [0]


def test_a_dry_run_prints_what_will_be_submitted(tmp_path):
    """The second attempt requests at most a day: twice as much as the first, or what the profile requests."""
    project = Project.copied(tmp_path)
    others = write_profile(project)
    _, command = blocks("sh")
    assert requests(project.by_hand(command).stdout) == requests(*blocks("text"))
    for block in others:
        request(project, block)
    second = f"device=cuda --attempt 2 -- {TARGET.replace('preview', 'paper')} {TIMING}"
    printed = project.by_hand(command.replace("device=cuda", second)).stdout
    submitted = requests(printed)
    assert submitted["1 timing"] >= {"mem_mb=32000", "runtime=1440", "slurm_extra=--exclusive"}
    assert submitted["1 train"] >= {"mem_mb=8000", "runtime=480", "constraint=a100", "gres=gpu:a100:1", "gpu=0"}


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
