"""After a call that did not end well, the next one makes exactly what is missing, and no finished run again."""

import contextlib
import os
import signal
import subprocess

import pytest
from project import RUNS, SNAKEMAKE, SPLIT, clean, log_of, wait_for

from flatfed.runs import lock
from samples import full

ROW = "fedsam"
RUN = f"{RUNS}/{ROW}/seed1"
LOG = log_of(RUN)
TABLES = {"table": {"results/preview/tables"}, "report": {"results/preview/report.html"}}
NEXT = {"train": {RUN}, **TABLES}
OUTPUTS = "src/flatfed/engine/job/outputs.py"
WRITTEN = "        self._keep_previous()\n"
BROKEN = f'        if "{ROW}" in str(self.out):\n            raise SystemExit("broken")\n{WRITTEN}'


def records(project):
    """Return run folder -> content of its record."""
    files = (project.root / RUNS).glob("*/seed1/run.json")
    return {str(file.parent.relative_to(project.root)): file.read_bytes() for file in files}


def started(project, *arguments):
    """Start a Snakemake on one core, a process group of its own; return it and a function that reads its output."""
    file = project.root / f"{len(arguments)}.log"
    with file.open("w") as log:
        command = (*SNAKEMAKE, "--cores", "1", *arguments)
        call = subprocess.Popen(command, cwd=project.root, env=clean(), stdout=log, stderr=log, start_new_session=True)
    return call, file.read_text


@contextlib.contextmanager
def retraining(project, *arguments):
    """Yield a Snakemake that trains RUN with other settings, what reads its output, and the training, which is paused.

    A process group of its own.
    """
    project.preview({ROW: {"rho": 0.3}})
    project.pause()
    call, output = started(project, *arguments)
    try:
        wait_for((project.root / RUN / "paused").exists, output)
        yield call, output, int((project.root / RUN / lock.NAME).read_text().split()[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(call.pid, signal.SIGKILL)
        call.wait()


def go(project):
    (project.root / RUN / "go").touch()


def unlock(project):
    assert project.call(*SNAKEMAKE, "--cores", "1", "--unlock").returncode == 0


def test_a_changed_setting_and_a_training_that_exits_1(project):
    """With `update` outputs, the next call made nothing, and the one after it said "Nothing to be done"."""
    before = records(project)
    project.preview({ROW: {"rho": 0.3}})
    project.edit(OUTPUTS, (WRITTEN, BROKEN))
    text = project.refused()
    assert f"\n{LOG}: " not in text, "no error of FlatFed"
    project.edit(OUTPUTS, (BROKEN, WRITTEN))
    assert project.made() == NEXT
    after = records(project)
    assert {run for run in after if after[run] != before[run]} == {RUN}
    assert (project.root / RUN / ".previous/run.json").read_bytes() == before[RUN]
    assert "Nothing to be done" in project.make().text


def test_sigterm_in_a_retraining(project):
    with retraining(project) as (call, output, training):
        os.kill(training, signal.SIGTERM)
        assert call.wait(timeout=900) != 0
    message = f"{LOG}: fedsmoo-cifar10/{SPLIT}/{ROW}/seed1: stopped by SIGTERM after round 1; checkpoint written"
    assert message in output()
    assert project.planned() == NEXT
    go(project)
    project.make(f"{RUN}/run.json")
    assert project.sessions(RUN) == [0, 1]


@full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_retry_goes_on_from_the_checkpoint(project, number):
    project.write_checkpoints()
    with retraining(project, "--retries", "1", f"{RUN}/run.json") as (call, output, training):
        log = project.root / LOG
        os.kill(training, number)
        wait_for(lambda: log.exists() and "of its checkpoint" in log.read_text(), output)
        go(project)
        assert call.wait(timeout=900) == 0 and "Trying to restart" in output()
    assert project.sessions(RUN) == [0, 1]


@full
def test_a_run_that_finished_after_snakemake_was_killed(project):
    """Before the next call; that call used to train it again from the start."""
    with retraining(project) as (call, _, _):
        call.kill()
        call.wait()
        go(project)
        wait_for((project.root / RUN / "run.json").exists, (project.root / LOG).read_text)
        wait_for(lambda: not lock.is_held(project.root / RUN), (project.root / LOG).read_text)
    made = records(project)[RUN]
    assert "It can be removed with the --unlock argument" in project.refused()
    unlock(project)
    assert project.made() == NEXT
    assert records(project)[RUN] == made and "finished already" in (project.root / LOG).read_text()
    assert project.planned() == {}


@full
def test_a_training_of_a_killed_snakemake_that_still_runs_is_waited_for(project):
    with retraining(project) as (call, _, training):
        call.kill()
        call.wait()
        unlock(project)
        second, output = started(project, "--", f"{RUN}/run.json")
        waits, log = f"{RUN}: another process trains this run (process {training} on ", project.root / LOG
        wait_for(lambda: log.exists() and waits in log.read_text(), output)
        go(project)
        assert second.wait(timeout=900) == 0, output()
    assert "finished already" in log.read_text() and project.sessions(RUN) == [0]


@full
def test_forced_trainings_and_a_failure(project):
    """What was trained again stays, and what failed is the run that was there: -R is not remembered."""
    before = records(project)
    project.edit(OUTPUTS, (WRITTEN, BROKEN))
    project.refused("-R", "train")
    project.edit(OUTPUTS, (BROKEN, WRITTEN))
    forced = records(project)
    assert RUN not in forced and all(forced[run] != before[run] for run in forced) and len(forced) == 2
    assert project.made() == NEXT
    assert records(project) == {**forced, RUN: before[RUN]}
    assert project.planned() == {}


@full
def test_a_forced_table_trains_nothing_and_a_forced_run_itself_alone(project):
    before = records(project)
    project.make("-R", "table", "partition")
    assert records(project) == before
    project.make("-f", f"{RUN}/run.json")
    after = records(project)
    assert {run for run in after if after[run] != before[run]} == {RUN}
    assert (project.root / RUN / ".previous/run.json").read_bytes() == before[RUN]
