"""The profile for clusters on a real Slurm of one node: one GPU to queue for, a cancelled job, the same table."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from project import COLUMN, SPLIT, TABLE
from slurm import Slurm, unavailable

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"
ROWS = ["fedavg", "fedsmoo"]

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
    """The small project with two rows that train long enough to be cancelled; all of it made, locally."""
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].update(rounds=60, checkpoint_every=1),
    )
    project.make()
    return project


def test_a_table_by_slurm_is_the_local_one_though_a_job_was_cancelled(longer, cluster):
    table = longer.root / f"results/preview/tables/{TABLE}.csv"
    local = table.read_bytes()
    for made in ("runs", "cells", "tables"):
        shutil.rmtree(longer.root / "results/preview" / made)
    # A training on the CPU that asks for the GPU all the same: there is only the name of one.
    asked = ["--config", "device=cpu", "--set-resources", "train:gpu=1"]
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm", *QUICK, *asked]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
    log = longer.root / "slurm.log"
    with log.open("w") as file:
        running = subprocess.Popen(command, cwd=longer.root, env=environment, stdout=file, stderr=file)
    queued, cancelled = set(), None
    deadline = time.monotonic() + 400
    while running.poll() is None:
        assert time.monotonic() < deadline, log.read_text()
        jobs = cluster.jobs()
        states = [state for _, state, _ in jobs]
        queued |= {job for job, state, why in jobs if state == "PENDING" and why == "Resources" and "RUNNING" in states}
        begun = [row for row in ROWS if any((longer.root / RUNS / row / "seed1").glob(".checkpoint*"))]
        active = [job for job, state, _ in jobs if state == "RUNNING"]
        if cancelled is None and begun and active and queued:
            cancelled = (active[0], begun[0])
            cluster.ask("scancel", active[0])
        time.sleep(0.05)
    assert running.returncode == 0, log.read_text()
    assert queued, "the second training waits for the one GPU"
    assert cancelled is not None and (cancelled[0], "CANCELLED") in {job[:2] for job in cluster.jobs()}
    again = (longer.root / f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/{cancelled[1]}/seed1.log").read_text()
    assert "of its checkpoint" in again, "the second attempt goes on from where the first was cancelled"
    assert table.read_bytes() == local
    assert COLUMN in local.decode()


def test_where_jobs_run_elsewhere_the_device_is_said(project, cluster):
    done = project.call(sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm", *QUICK, "--forceall")
    assert done.returncode != 0
    assert "say --config device=cuda (or device=cpu)" in done.stdout + done.stderr
