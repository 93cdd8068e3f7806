# Inputs and parameters of a job, from its wildcards.
@reports_errors
def dataset_spec(wildcards):
    return as_json(EXPERIMENT.catalog.dataset_spec(wildcards.dataset).as_written())


@functools.cache
@reports_errors
def source_of(dataset):
    """Return the source of a dataset, the digest of its files, and whether only their times changed."""
    source = EXPERIMENT.catalog.dataset_spec(dataset).source
    digest = data_sources.listing_of_contents(source, Path(".snakemake/flatfed-data", f"{dataset}.json"))
    return source, digest, digest != data_sources.listing(source)


def source_file(wildcards):
    """Return the source files of a dataset, so that a new file reruns the fetch; none for other sources."""
    source, _, same_contents = source_of(wildcards.dataset)
    paths = list(data_sources.files(source).values())
    return [ancient(path) for path in paths] if same_contents else paths


def source_images(wildcards):
    """Return a digest of the files of a source: Snakemake misses a new file that is older than the old one."""
    _, digest, _ = source_of(wildcards.dataset)
    return digest


@reports_errors
def weights_name(wildcards):
    return EXPERIMENT.weights_name(wildcards.weights)


@reports_errors
def partition_of(wildcards):
    ids = wildcards.scale, wildcards.protocol, wildcards.split, int(wildcards.seed)
    return EXPERIMENT.partition_spec(*ids)


def partition_spec(wildcards):
    return as_json(partition_of(wildcards).as_written())


def partition_version(wildcards):
    return schemes.VERSIONS[partition_of(wildcards).scheme]


def partition_data(wildcards):
    """Return the dataset of a partition."""
    dataset = partition_of(wildcards).dataset
    return {"manifest": PATHS.manifest(dataset), "labels": ancient(PATHS.arrays(dataset)[1])}


def row_of(wildcards):
    return wildcards.scale, wildcards.protocol, wildcards.split, wildcards.algorithm


def search_of(wildcards):
    return tuning.search_at(EXPERIMENT.catalog, PATHS, *row_of(wildcards))


@reports_errors
def run_of(wildcards):
    if "point" in wildcards.keys():
        return tuning.run(EXPERIMENT.catalog, PATHS, search_of(wildcards), wildcards.point)
    seed = wildcards.get("seed") or EXPERIMENT.seeds(wildcards.scale, wildcards.protocol)[0]
    return EXPERIMENT.run(*row_of(wildcards), int(seed))


def run_data(wildcards):
    """Return the dataset and the partition of a run."""
    run = run_of(wildcards)
    arrays = [ancient(file) for file in PATHS.arrays(run.dataset)]
    return {"manifest": run.manifest, "arrays": arrays, "partition": run.partition}


def run_weights(wildcards):
    return run_of(wildcards).weights or []


def run_settings(wildcards):
    """Return the settings that decide the results of a run: a change of others reruns nothing."""
    return as_json(run_of(wildcards).config.deciding)


def timing_settings(wildcards):
    return as_json(run_of(wildcards).config.deciding_seconds)


def run_config(wildcards, output):
    """Return all settings of a run. Snakemake does not record parameters that depend on `output`."""
    return as_json(run_of(wildcards).config.as_json())


def run_threads(wildcards):
    return 1 if wildcards.scale == "preview" else config.get("threads", 1)


def run_versions(wildcards):
    return as_json(versions.of_run(run_of(wildcards).config))


@reports_errors
def choice_digest(wildcards):
    return digest(tuning.choice_spec(EXPERIMENT.catalog, PATHS, search_of(wildcards)))


@reports_errors
def choice_inputs(wildcards):
    search = search_of(wildcards)
    runs = [tuning.run(EXPERIMENT.catalog, PATHS, search, point) for point in search.combinations()]
    return [file for run in runs for file in run.files]


def choice_files(targets):
    searches = at_scale.searches(EXPERIMENT, EXPERIMENT.scale, targets)
    return [tuning.choice_path(PATHS, search) for search in searches]


@reports_errors
def tuning_choices(wildcards):
    return choice_files(EXPERIMENT.existing(EXPERIMENT.scale, EXPERIMENT.requested))


@reports_errors
def every_tuning_choice(wildcards):
    return choice_files(EXPERIMENT.all_at(EXPERIMENT.scale))


def all_cores(wildcards):
    return workflow.cores


@reports_errors
def surface_settings(wildcards):
    images = {"set": wildcards.on.removeprefix(".")} if wildcards.on else {}
    return EXPERIMENT.catalog.analysis_options("surface", wildcards.scale, wildcards.protocol, **images)


@reports_errors
def hessian_settings(wildcards):
    return EXPERIMENT.catalog.analysis_options("hessian", wildcards.scale, wildcards.protocol)
