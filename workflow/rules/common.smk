import functools
import json

from snakemake.logging import logger

from flatfed import data, files, gpus
from flatfed.commands import closing, train_run
from flatfed.commands.jobs import Jobs, request
from flatfed.config.strict_yaml import as_in_a_file
from flatfed.runs import client_accuracies, curvature, landscape_file, source_code, timing
from flatfed.runs.paths import Paths

PATHS = Paths(*(workflow.pathvars.apply(f"<{name}>") for name in ("results", "resources", "logs")))
CALL = closing.Call(PATHS)

# Snakemake leaves numbers inside lists and mappings of --config as text.
config.update({key: as_in_a_file(config[key]) for key in workflow.config_settings.overwrite_config})
EXPERIMENT = reports_errors(configuration.of_call)(ROOT, config, PATHS, READS_FILES)
os.environ.update(EXPERIMENT.environment)
DEVICE = gpus.resolve(EXPERIMENT.request.device)
# Short jobs rerun after any change of the package and of the user's files.
CODE = source_code.package_digest(tuple(EXPERIMENT.request.folders))


@functools.cache
def jobs():
    """Return the jobs of this call. Its processes inherit what it forces, and read the configuration as it has."""
    settings, experiment = workflow.dag_settings, EXPERIMENT
    if workflow.is_main_process:
        forced = train_run.forced_by(settings, rules.train.rule.name)
        os.environ[train_run.FORCED] = json.dumps([CALL.began, *sorted(forced)])
        experiment = experiment.forcing(forced)
        configuration.write_copy(config, experiment)
    return Jobs(experiment)


def of(question, *kind):
    """Return the function of the wildcards that asks :class:`Jobs`."""

    @reports_errors
    def ask(wildcards):
        return getattr(jobs(), question)(*kind, **dict(wildcards.items()))

    return ask


@reports_errors
def run_config(wildcards, output):
    """Return all settings of a run. Snakemake does not record parameters that depend on `output`."""
    return jobs().run_config(**dict(wildcards.items()))


@reports_errors
def run_data(wildcards):
    """Return the dataset and the partition of a run."""
    run = jobs().run(**dict(wildcards.items()))
    arrays = [ancient(file) for file in PATHS.arrays(run.dataset)]
    return {"manifest": run.manifest, "arrays": arrays, "partition": run.partition}


@reports_errors
def source_files(wildcards):
    """Return the source files of a dataset, so that a new file reruns the fetch; none for other sources."""
    paths, same_contents = jobs().source_files(wildcards.dataset)
    return [ancient(path) for path in paths] if same_contents else paths


@reports_errors
def partition_data(wildcards):
    dataset = jobs().partition(**dict(wildcards.items())).dataset
    return {"manifest": PATHS.manifest(dataset), "labels": ancient(PATHS.arrays(dataset)[1])}


def all_cores(wildcards):
    return workflow.cores


@functools.cache
@reports_errors
def requested(every):
    for line in jobs().left_out(every) if workflow.is_main_process else ():
        logger.info(line)
    return jobs().outputs(every)


@reports_errors
def job_device(wildcards=None):
    """Return the device of a job. Each job calls it, because a workflow used as a module has no `onstart`."""
    return gpus.of_jobs(EXPERIMENT.request.device, workflow.local_exec)


onstart:
    job_device()
    if workflow.is_main_process:
        reports_errors(files.check_writable)(map(Path, PATHS.folders))
        CALL.note_cells(workflow.dag_settings.targets)
        if workflow.local_exec:
            reports_errors(gpus.demanded)(DEVICE)
            if (EXPERIMENT.request.device, DEVICE) == ("auto", "cpu"):
                logger.info("device: auto, and there is no GPU here: trainings run on the CPU.")


onsuccess:
    CALL.report()


onerror:
    CALL.report()


# An id is any text between two slashes, so FlatFed, not Snakemake, reports an unknown id with its nearest match.
wildcard_constraints:
    **dict.fromkeys(
        ("dataset", "protocol", "split", "algorithm", "table", "column", "row", "figure"), "[^/]+"
    ),
    scale="preview|paper",
    seed="[1-9][0-9]*",
    on="(?:\\.(?:train|test))?",
