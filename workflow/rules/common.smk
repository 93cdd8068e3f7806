import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path

import psutil
from snakemake.cli import get_argument_parser
from snakemake.logging import logger
from snakemake.settings.enums import Quietness

from flatfed import data, plan, files, gpus
from flatfed.config import strict_yaml
from flatfed.commands import configuration, run_folders
from flatfed.data import schemes
from flatfed.engine import versions
from flatfed.plan import (
    at_scale,
    data_sources,
    number,
    numbers,
    tuning,
)
from flatfed.plan.number import digest
from flatfed.models import pretrained
from flatfed.runs import curvature, landscape_file, lock, source_code, timing
from flatfed.runs.paths import Paths
from flatfed.snakemake_support import closing, requested, warm

PATHS = Paths(*(workflow.pathvars.apply(f"<{name}>") for name in ("results", "resources", "logs")))


# Snakemake leaves numbers inside lists and mappings of --config as text.
config.update(
    {key: strict_yaml.as_in_a_file(config[key]) for key in workflow.config_settings.overwrite_config}
)


def call_has(argument):
    """Return the values of an argument of the command line, which Snakemake knows only after it has read the rules."""
    words = sys.argv[1:] if workflow.is_main_process and "snakemake" in sys.argv[0] else []
    return getattr(get_argument_parser().parse_args(words), argument) or ()


FORCED = call_has("forcerun") if config.get("published") else ()
EXPERIMENT = reports_errors(plan.load)(ROOT, config, PATHS)
EXPERIMENT = reports_errors(run_folders.with_published)(EXPERIMENT, FORCED)
os.environ.update(EXPERIMENT.environment)
# Trainings accept runs that finish after this time: jobs of a killed Snakemake may still train. Jobs inherit the variable.
os.environ.setdefault(lock.CALLED, str(time.time()))
reports_errors(configuration.write_effective)(config, EXPERIMENT)
DEVICE = gpus.resolve(config.get("device", "auto"))
# Short jobs rerun after any change of the package.
CODE = source_code.package_digest()


# Flag of a training's model (keep_models in config.yaml). With `update`, Snakemake does not remove the model before a training that
# then accepts it with the finished run of another job.
def kept(file):
    return update(file) if config.get("keep_models") == "all" else temp(update(file))


# Run records of this call, and the requested cells before it, for the final summary.
RECORDS = []
CELLS = {}
# Existing output of a job of this call -> its time, and Snakemake's record of the job that wrote it.
BEFORE = {}


def stop_jobs(number, _):
    """Pass the first SIGINT on to all jobs, and have Snakemake wait for them and record those that finish.

    Snakemake itself neither stops its jobs when an IDE's stop button sends SIGINT to Snakemake alone, nor records jobs that
    finish after SIGINT: it reruns them. A thread makes the request, because the main thread may hold Snakemake's lock.
    """
    signal.signal(number, signal.default_int_handler)
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it just ended
            process.send_signal(number)
    threading.Thread(target=workflow.scheduler.exit_gracefully).start()


# Check folders and device. Local trainings fork from a process that has imported torch (flatfed.snakemake_support.warm). A terminal shows
# progress bars (flatfed.snakemake_support.progress_bars).
onstart:
    job_device()
    if workflow.is_main_process:
        outputs = [file for job in workflow.dag.needrun_jobs() for file in (*job.output, *job.log)]
        reports_errors(files.check_writable)(Path(file).parent for file in outputs)
        BEFORE.update(
            {
                f: (os.stat(f).st_mtime, workflow.persistence.metadata(f))
                for f in outputs
                if Path(f).exists()
            }
        )
        RECORDS.extend(Path(file) for file in outputs if Path(file).name == "run.json")
        CELLS.update(closing.cells_before(workflow.dag_settings.targets, PATHS))
    if workflow.local_exec and workflow.is_main_process:
        reports_errors(gpus.demanded)(DEVICE)
        # A script's `snakemake &` ignores SIGINT.
        if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
            signal.signal(signal.SIGINT, stop_jobs)
        if (config.get("device", "auto"), DEVICE) == ("auto", "cpu"):
            logger.info("device: auto, and there is no GPU here: trainings run on the CPU.")
        folder = tempfile.mkdtemp(prefix="flatfed-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[warm.VARIABLE] = f"{folder}/warm:{os.getpid()}"
    quiet = {Quietness.ALL, Quietness.PROGRESS} & set(workflow.output_settings.quiet or ())
    # With --use-conda, Snakemake may run in an environment of its own, without tqdm.
    if workflow.is_main_process and sys.stderr.isatty() and not quiet and find_spec("tqdm"):
        from flatfed.snakemake_support import progress_bars

        progress_bars.attach(logger)
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            closing.brief(handler.formatter)


onsuccess:
    closing.say("Diverged:", closing.diverged(RECORDS))
    closing.say("Cells:", closing.cells_changed(CELLS))


def restore_records():
    """Make the next call rerun the jobs that this call did not finish: undo Snakemake's records of them."""
    for job in workflow.dag.needrun_jobs():
        for file in job.output:
            if file in BEFORE and Path(file).exists():
                time, record = BEFORE[file]
                os.utime(file, (time, time))
                if record is not None:
                    write_record(file, record)


# After Snakemake's own lines.
onerror:
    restore_records()
    logs = {file for job in workflow.scheduler.failed for file in job.log}
    atexit.register(closing.say, "Why jobs failed:", closing.failed(sorted(logs)))
    atexit.register(closing.say, "Diverged:", closing.diverged(RECORDS))


# An id is any text between two slashes, so FlatFed, not Snakemake, reports an unknown id with its nearest match.
wildcard_constraints:
    scale="preview|paper",
    dataset="[^/]+",
    protocol="[^/]+",
    split="[^/]+",
    algorithm="[^/]+",
    on="(?:\\.(?:train|test))?",
    seed="[1-9][0-9]*",
    table="[^/]+",
    column="[^/]+",
    row="[^/]+",
    figure="[^/]+",
    weights="[^/]+",
    point="[^/]+",


def job_device(wildcards=None):
    """Return the device of a job. Each job calls it, because a workflow used as a module has no `onstart`."""
    if not workflow.local_exec and config.get("device", "auto") == "auto":
        raise WorkflowError(
            "device: auto checks this host, but jobs run on other hosts: say --config device=cuda (or device=cpu)"
        )
    return DEVICE


def as_json(value):
    return json.dumps(value, sort_keys=True)


@reports_errors
def check_targets(*rule_names):
    """Refuse a target of the command line that no rule produces; skip this if another workflow uses this one as a module.

    Snakemake suggests no nearest match.
    """
    if not workflow.is_main_process or not Path(workflow.main_snakefile).resolve().is_relative_to(ROOT):
        return
    for target in call_has("targets"):
        produced = target in rule_names or any(entry.is_producer(target) for entry in workflow.rules)
        if not produced and not Path(target).exists():
            requested.refuse(EXPERIMENT, target, rule_names)


# Report once the requested outputs that do not exist at this scale.
@functools.cache
def say_left_out(every):
    targets = EXPERIMENT.everything if every else EXPERIMENT.requested
    lines = EXPERIMENT.left_out(EXPERIMENT.scale, targets)
    for line in lines if workflow.is_main_process else ():
        logger.info(line)


def outputs(scale, targets):
    """Return the files of the requested tables and figures."""
    return PATHS.outputs(scale, targets.tables, targets.figures)


@reports_errors
def selected_outputs(wildcards):
    say_left_out(every=False)
    scale = EXPERIMENT.scale
    files = outputs(scale, EXPERIMENT.existing(scale, EXPERIMENT.requested))
    return [*files, PATHS.report(scale), PATHS.errata]


@reports_errors
def every_output(wildcards):
    say_left_out(every=True)
    files = outputs(EXPERIMENT.scale, EXPERIMENT.all_at(EXPERIMENT.scale))
    return [*files, PATHS.errata]


# What a training asks a cluster for: minutes and megabytes. `set-resources` of a profile goes before it.
MINUTES = {"paper": 1440, "preview": 10}
MEGABYTES = {"paper": 16_000, "preview": 4_000}


def run_minutes(wildcards, attempt):
    """Attempts after the first ask for twice as much, and no more: they also follow preemptions."""
    return min(attempt, 2) * MINUTES[wildcards.scale]


def run_megabytes(wildcards, attempt):
    return min(attempt, 2) * MEGABYTES[wildcards.scale]
