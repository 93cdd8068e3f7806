# Inputs and parameters of a job, from its wildcards.
@reports_errors
def dataset_spec(wildcards):
    return as_json(run_specs.dataset_spec(EXPERIMENT.catalog, wildcards.dataset))


@functools.cache
@reports_errors
def source_of(dataset):
    """Return the source of a dataset, the digest of its files, and whether only their times changed."""
    source = run_specs.dataset_spec(EXPERIMENT.catalog, dataset)["source"]
    digest = data_sources.listing_of_contents(source, Path(".snakemake/flatfed-data", f"{dataset}.json"))
    return source, digest, digest != data_sources.listing(source)


def source_file(wildcards):
    """Return the source files of a dataset, so that a new file reruns the fetch; none for other sources."""
    source, _, same_contents = source_of(wildcards.dataset)
    paths = [source[key] for key in data_sources.files(source)]
    return [ancient(path) for path in paths] if same_contents else paths


def source_images(wildcards):
    """Return a digest of the files of a source: Snakemake misses a new file that is older than the old one."""
    _, digest, _ = source_of(wildcards.dataset)
    return digest


@reports_errors
def weights_name(wildcards):
    return run_specs.weights_name(PATHS, wildcards.weights)


@reports_errors
def partition_of(wildcards):
    ids = wildcards.scale, wildcards.protocol, wildcards.split, int(wildcards.seed)
    return run_specs.partition_spec(EXPERIMENT, *ids)


def partition_spec(wildcards):
    return as_json(partition_of(wildcards))


def partition_version(wildcards):
    return schemes.VERSIONS[partition_of(wildcards)["scheme"]]


def partition_manifest(wildcards):
    return PATHS.manifest(partition_of(wildcards)["dataset"])


def partition_labels(wildcards):
    return PATHS.arrays(partition_of(wildcards)["dataset"])[1]


def row_of(wildcards):
    return wildcards.scale, wildcards.protocol, wildcards.split, wildcards.algorithm


def search_of(wildcards):
    return tuning.search_at(EXPERIMENT.catalog, PATHS, *row_of(wildcards))


@reports_errors
def run_of(wildcards):
    if "point" in wildcards.keys():
        return tuning.run(EXPERIMENT.catalog, PATHS, search_of(wildcards), wildcards.point)
    seed = wildcards.get("seed") or run_specs.seeds(EXPERIMENT, wildcards.scale, wildcards.protocol)[0]
    return run_specs.run(EXPERIMENT, *row_of(wildcards), int(seed))


# What a training asks a cluster for: minutes and megabytes. `set-resources` of a profile goes before it.
MINUTES = {"paper": 1440, "preview": 10}
MEGABYTES = {"paper": 16_000, "preview": 4_000}


def run_minutes(wildcards, attempt):
    """Attempts after the first ask for twice as much, and no more: they also follow preemptions."""
    return min(attempt, 2) * MINUTES[wildcards.scale]


def run_megabytes(wildcards, attempt):
    return min(attempt, 2) * MEGABYTES[wildcards.scale]


def run_manifest(wildcards):
    return run_of(wildcards).manifest


def run_arrays(wildcards):
    return PATHS.arrays(run_of(wildcards).dataset)


def run_partition(wildcards):
    return run_of(wildcards).partition


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
    """Return the versions of a run's components, as its run.json or timing.json has them, if they are right."""
    run = run_of(wildcards)
    return as_json(versions.of_run(run.config, map(versions.recorded, (run.record, run.timing))))


@reports_errors
def choice_digest(wildcards):
    return digest(tuning.choice_spec(EXPERIMENT.catalog, PATHS, search_of(wildcards)))


@reports_errors
def choice_inputs(wildcards):
    search = search_of(wildcards)
    runs = [tuning.run(EXPERIMENT.catalog, PATHS, search, point) for point in search.combinations()]
    return [file for run in runs for file in run.files]


def choice_files(targets):
    searches = selection.searches(EXPERIMENT, EXPERIMENT.scale, targets)
    return [tuning.choice_path(PATHS, search) for search in searches]


@reports_errors
def tuning_choices(wildcards):
    return choice_files(scales.existing(EXPERIMENT, EXPERIMENT.scale, EXPERIMENT.requested))


@reports_errors
def every_tuning_choice(wildcards):
    return choice_files(scales.all_at(EXPERIMENT, EXPERIMENT.scale))


@reports_errors
def cell_of(wildcards):
    return numbers.numbers(EXPERIMENT, wildcards.scale, wildcards.table, [wildcards.column], wildcards.row)


def cell_inputs(wildcards):
    paths = [PATHS.cell(wildcards.scale, wildcards.table, wildcards.column, wildcards.row)]
    inputs = numbers.inputs(cell_of(wildcards))
    rebuild_unsealed(paths, cell_seal, wildcards, inputs)
    return inputs


def cell_digest(wildcards):
    return digest(cell_of(wildcards))


@functools.cache
@reports_errors
def table_at(scale, table):
    """Return the layout and the numbers of a table."""
    columns = columns_of(table)
    layout = table_specs.table_spec(EXPERIMENT, scale, table, columns)
    return layout, numbers.numbers(EXPERIMENT, scale, table, columns)


def table_inputs(wildcards):
    _, of_table = table_at(wildcards.scale, wildcards.table)
    inputs = numbers.inputs(of_table)
    rebuild_unsealed(PATHS.table(wildcards.scale, wildcards.table), table_seal, wildcards, inputs)
    return inputs


def table_digest(wildcards):
    return digest(*table_at(wildcards.scale, wildcards.table))


def table_printed(wildcards):
    """Return whether the table shows the paper's numbers, for the caption in Snakemake's report."""
    layout, _ = table_at(wildcards.scale, wildcards.table)
    return layout.printed


def table_columns(wildcards):
    return [] if columns_of(wildcards.table) else ["--all"]


@functools.cache
@reports_errors
def figure_at(scale, figure):
    return figure_specs.figure_spec(EXPERIMENT, scale, figure)


def figure_inputs(wildcards):
    inputs = figure_at(wildcards.scale, wildcards.figure).inputs
    rebuild_unsealed(PATHS.figure(wildcards.scale, wildcards.figure), figure_seal, wildcards, inputs)
    return inputs


def figure_digest(wildcards):
    return digest(figure_at(wildcards.scale, wildcards.figure))


def figure_caption(wildcards):
    """Return kind and set-up of a figure, for the caption in Snakemake's report."""
    figure = figure_at(wildcards.scale, wildcards.figure)
    return [figure.kind, figure.setting]


@reports_errors
def report_inputs(wildcards):
    rebuild_unsealed([PATHS.report(wildcards.scale)], report_seal, wildcards)
    return outputs(wildcards.scale, scales.existing(EXPERIMENT, wildcards.scale, EXPERIMENT.requested))


@reports_errors
def report_digest(wildcards):
    return digest(report_spec.specification(EXPERIMENT, wildcards.scale))


def errata_inputs(wildcards):
    """Return no file: the seal contains the errata."""
    rebuild_unsealed([PATHS.errata], errata_seal, wildcards)
    return []


def all_cores(wildcards):
    return workflow.cores or 1


@reports_errors
def surface_settings(wildcards):
    own = {"set": wildcards.on.removeprefix(".")} if wildcards.on else {}
    return analyses.options(EXPERIMENT.catalog, "surface", wildcards.scale, wildcards.protocol, **own)


@reports_errors
def hessian_settings(wildcards):
    return analyses.options(EXPERIMENT.catalog, "hessian", wildcards.scale, wildcards.protocol)
