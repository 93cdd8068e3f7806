"""After a call that did not end well, the next one makes exactly what is missing, and no finished run again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from project import RUNS, SNAKEMAKE, SPLIT, TABLE, clean, jobs_of, log_of, wait_for

from flatfed.engine.job.checkpoint import NAME
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


def sessions(project):
    return [session["from_round"] for session in json.loads((project.root / RUN / "run.json").read_text())["sessions"]]


@contextlib.contextmanager
def calling(project, *arguments):
    """Yield a Snakemake on one core whose training of RUN has begun, a process group of its own, and that training."""
    with (project.root / "call.log").open("w") as log:
        command = (*SNAKEMAKE, "--cores", "1", *arguments)
        call = subprocess.Popen(command, cwd=project.root, env=clean(), stdout=log, stderr=log, start_new_session=True)
    try:
        path, text = project.root / RUN / lock.NAME, (project.root / "call.log").read_text
        wait_for(lambda: path.exists() and (project.root / RUN / NAME).exists(), text)
        yield call, int(path.read_text().split()[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(call.pid, signal.SIGKILL)
        call.wait()


def lasting(project):
    """Change the settings of RUN: it trains long enough to be stopped, and writes checkpoints."""
    project.preview({ROW: {"rho": 0.3}})
    project.write_checkpoints()
    project.edit("src/flatfed/engine/job/train.py", ("                    clients = simulation.sample()\n", PAUSE))


PAUSE = """                    clients = simulation.sample()
                    if simulation.round == 1:
                        while not (self.outputs.out / "go").exists():
                            interruption.check()
                            time.sleep(0.02)
"""


def go(project):
    (project.root / RUN / "go").touch()


def test_a_changed_setting_and_a_training_that_exits_1(project):
    """With `update` outputs, the next call made nothing, and the one after it said "Nothing to be done"."""
    before = records(project)
    project.preview({ROW: {"rho": 0.3}})
    project.edit(OUTPUTS, (WRITTEN, BROKEN))
    text = project.refused()
    assert f"\n{LOG}: " not in text, "no error of FlatFed"
    project.edit(OUTPUTS, (BROKEN, WRITTEN))
    assert project.planned() == NEXT
    project.make()
    after = records(project)
    assert {run for run in after if after[run] != before[run]} == {RUN}
    assert (project.root / RUN / ".previous/run.json").read_bytes() == before[RUN]
    assert project.planned() == {}


def test_sigterm_in_a_retraining(project):
    lasting(project)
    with calling(project) as (call, training):
        os.kill(training, signal.SIGTERM)
        assert call.wait(timeout=900) != 0
    text = (project.root / "call.log").read_text()
    assert f"{LOG}: fedsmoo-cifar10/{SPLIT}/{ROW}/seed1: stopped by SIGTERM after round 1; checkpoint written" in text
    assert project.planned() == NEXT
    go(project)
    project.make()
    assert sessions(project) == [0, 1]
    assert project.planned() == {}


@full
def test_ctrl_c(project):
    """A terminal sends SIGINT to all processes."""
    lasting(project)
    with calling(project) as (call, _):
        os.killpg(call.pid, signal.SIGINT)
        assert call.wait(timeout=900) != 0
    assert project.planned() == NEXT
    go(project)
    project.make()
    assert sessions(project) == [0, 1]
    assert project.planned() == {}


@full
def test_forced_trainings_and_a_failure(project):
    """What was trained again stays, and what failed is the run that was there: -R is not remembered."""
    before = records(project)
    project.edit(OUTPUTS, (WRITTEN, BROKEN))
    project.refused("-R", "train")
    project.edit(OUTPUTS, (BROKEN, WRITTEN))
    forced = records(project)
    assert RUN not in forced and all(forced[run] != before[run] for run in forced) and len(forced) == 3
    assert project.planned() == NEXT
    project.make()
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


@full
def test_a_full_disk(project):
    """A disk of its own for the results, in a namespace of the processes that are tried."""
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here: that takes root, and `unshare --mount`")
    before = records(project)
    project.preview({ROW: {"rho": 0.3}})
    snakemake = f"{sys.executable} -m snakemake --cores 2"
    done = project.call(
        *("unshare", "--mount", "bash", "-euc"),
        f"""
mount -t tmpfs -o size=64m none /mnt
cp -a results/. /mnt
mount --bind /mnt results
head -c 100M /dev/zero > results/filler || true
{snakemake} && exit 9
rm results/filler
{snakemake} --dry-run --printshellcmds > planned
{snakemake}
{snakemake} --dry-run --printshellcmds > nothing
mkdir made && cp -a results/. made
""",
    )
    assert done.returncode == 0, done.text
    assert "No space left on device" in done.text or "the disk is full" in done.text
    assert jobs_of((project.root / "planned").read_text()) == NEXT
    assert jobs_of((project.root / "nothing").read_text()) == {}
    made = project.root / "made" / Path(RUN).relative_to("results")
    assert (made / ".previous/run.json").read_bytes() == before[RUN] != (made / "run.json").read_bytes()


def test_a_run_that_finished_after_snakemake_was_killed(project):
    """Before the next call; that call used to train it again from the start."""
    lasting(project)
    with calling(project) as (call, _):
        call.kill()
        call.wait()
        go(project)
        wait_for((project.root / RUN / "run.json").exists, (project.root / LOG).read_text)
        wait_for(lambda: not lock.is_held(project.root / RUN), (project.root / LOG).read_text)
    made = records(project)[RUN]
    assert project.call(*SNAKEMAKE, "--cores", "1", "--unlock").returncode == 0
    assert project.planned() == NEXT
    project.make()
    assert records(project)[RUN] == made and "finished already" in (project.root / LOG).read_text()
    assert project.planned() == {}


@full
def test_edits_during_a_call_reach_no_job(project):
    """A file that is half written, and a new one, while a training runs; the next call reads them."""
    table, mine = project.root / f"config/tables/{TABLE}.yaml", project.root / "config/tables/mine.yaml"
    content = table.read_text()
    lasting(project)
    with calling(project) as (call, _):
        table.write_text("rows: [")
        mine.write_text("rows: [")
        go(project)
        assert call.wait(timeout=900) == 0, (project.root / "call.log").read_text()
    text = project.refused()
    assert f"config/tables/{TABLE}.yaml: not YAML" in text and "config/tables/mine.yaml: not YAML" in text
    table.write_text(content)
    mine.unlink()
    assert project.planned() == {}
