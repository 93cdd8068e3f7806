# What rules ask of the experiment: inputs and parameters of one job, from its wildcards.
@told
def dataset_spec(wildcards):
    return as_json(EXPERIMENT.dataset_spec(wildcards.dataset))


@told
def source_file(wildcards):
    """The files a data set is read from, so that new ones are read again; none for other sources."""
    source = EXPERIMENT.dataset_spec(wildcards.dataset)["source"]
    return [source[key] for key in data_sources.files(source)]


@told
def source_images(wildcards):
    """A digest of the files or images of a source: Snakemake misses a new file that is older than the old one."""
    return data_sources.listing(EXPERIMENT.dataset_spec(wildcards.dataset)["source"])


@told
def weights_name(wildcards):
    return EXPERIMENT.weights_name(wildcards.weights)


@told
def partition_spec(wildcards):
    return as_json(
        EXPERIMENT.partition_spec(wildcards.scale, wildcards.protocol, wildcards.split, int(wildcards.seed))
    )


@told
def partition_version(wildcards):
    deal = EXPERIMENT.deal(wildcards.scale, wildcards.protocol, wildcards.split)
    return schemes.VERSIONS[deal.partition["scheme"]]


@told
def partition_manifest(wildcards):
    return PLACES.manifest(EXPERIMENT.dataset_of(wildcards.scale, wildcards.protocol))


@told
def partition_labels(wildcards):
    return PLACES.arrays(EXPERIMENT.dataset_of(wildcards.scale, wildcards.protocol))[1]


def row_of(wildcards):
    return wildcards.scale, wildcards.protocol, wildcards.split, wildcards.algorithm


def search_of(wildcards):
    return tuning.search_at(EXPERIMENT, *row_of(wildcards))


@told
def run_of(wildcards):
    if "point" in wildcards.keys():
        return tuning.run(EXPERIMENT, search_of(wildcards), wildcards.point)
    seed = wildcards.get("seed") or EXPERIMENT.seeds(wildcards.scale, wildcards.protocol)[0]
    return EXPERIMENT.run(*row_of(wildcards), int(seed))


@told
def runs_of(wildcards):
    """The runs of all seeds, where they train together."""
    return [
        EXPERIMENT.run(*row_of(wildcards), seed)
        for seed in EXPERIMENT.seeds(wildcards.scale, wildcards.protocol)
    ]


def run_partitions(wildcards):
    return [run.partition for run in runs_of(wildcards)]


def run_descriptions(wildcards):
    return [as_json(run.description) for run in runs_of(wildcards)]


def of_all_seeds(name):
    """The file ``name`` of the runs of all seeds that config.yaml names."""
    folders = expand(
        "<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}",
        seed=config["seeds"],
        allow_missing=True,
    )
    return [f"{folder}/{name}" for folder in folders]


def run_folders(wildcards, output):
    return [str(Path(file).parent) for file in output.run]


def together_minutes(wildcards, attempt):
    return requests.for_runs(runs_of(wildcards), REQUESTS, attempt)[0]


def together_megabytes(wildcards, attempt):
    return requests.for_runs(runs_of(wildcards), REQUESTS, attempt)[1]


def run_manifest(wildcards):
    return run_of(wildcards).manifest


def run_arrays(wildcards):
    return PLACES.arrays(run_of(wildcards).dataset)


def run_partition(wildcards):
    return run_of(wildcards).partition


def run_weights(wildcards):
    return run_of(wildcards).weights or []


def run_description(wildcards):
    return as_json(run_of(wildcards).description)


def run_threads(wildcards):
    return 1 if wildcards.scale == "preview" else config.get("threads", 1)


def run_minutes(wildcards, attempt):
    return requests.for_runs([run_of(wildcards)], REQUESTS, attempt)[0]


def run_megabytes(wildcards, attempt):
    return requests.for_runs([run_of(wildcards)], REQUESTS, attempt)[1]


def run_versions(wildcards):
    return as_json(versions.of_run(run_of(wildcards).description))


@told
def choice_digest(wildcards):
    return digest(tuning.choice_spec(EXPERIMENT, search_of(wildcards)))


@told
def choice_inputs(wildcards):
    found = search_of(wildcards)
    return [file for point in found.points() for file in tuning.run(EXPERIMENT, found, point).files]


def choice_files(asked):
    found = tuning.searches_for(EXPERIMENT, EXPERIMENT.scale, *asked)
    return [tuning.choice_path(EXPERIMENT, search) for search in found]


@told
def tuning_choices(wildcards):
    return choice_files(EXPERIMENT.selected())


@told
def every_tuning_choice(wildcards):
    return choice_files(scales.every(EXPERIMENT, EXPERIMENT.scale))


@told
def cell_of(wildcards):
    return EXPERIMENT.cell(wildcards.scale, wildcards.table, wildcards.column, wildcards.row)


def cell_inputs(wildcards):
    return cell_of(wildcards).inputs


def cell_digest(wildcards):
    return digest(cell_of(wildcards))


@functools.cache
@told
def table_at(scale, table):
    """The layout and the cells of a table."""
    columns = columns_of(table)
    return EXPERIMENT.table_spec(scale, table, columns), EXPERIMENT.cells(scale, table, columns)


def table_inputs(wildcards):
    _, cells = table_at(wildcards.scale, wildcards.table)
    return list(dict.fromkeys(file for cell in cells for file in cell.inputs))


def table_digest(wildcards):
    return digest(*table_at(wildcards.scale, wildcards.table))


def table_printed(wildcards):
    """Whether the paper's numbers are printed next to ours, for the caption in Snakemake's report."""
    layout, _ = table_at(wildcards.scale, wildcards.table)
    return layout.printed


def table_columns(wildcards):
    return [] if columns_of(wildcards.table) else ["--all"]


def code_of(cells):
    """The package and, for declared costs, the user's algorithms: Snakemake reruns cells and tables when they change."""
    declared = [sources.update for cell in cells for sources in (cell.sources, cell.base_sources)]
    names = dict.fromkeys(update[0] for update in declared if update)
    return as_json([CODE, *(versions.of_algorithm(name) for name in names)])


def cell_code(wildcards):
    return code_of([cell_of(wildcards)])


def table_code(wildcards):
    _, cells = table_at(wildcards.scale, wildcards.table)
    return code_of(cells)


@functools.cache
@told
def figure_at(scale, figure):
    return EXPERIMENT.figure(scale, figure)


def figure_inputs(wildcards):
    return figure_at(wildcards.scale, wildcards.figure).inputs


def figure_digest(wildcards):
    return digest(figure_at(wildcards.scale, wildcards.figure))


def figure_caption(wildcards):
    """Kind and set-up of a figure, for the caption in Snakemake's report."""
    figure = figure_at(wildcards.scale, wildcards.figure)
    return [figure.kind, figure.setting]


@told
def report_inputs(wildcards):
    return outputs(wildcards.scale, EXPERIMENT.selected(wildcards.scale))


@told
def report_digest(wildcards):
    return digest(report_spec.specification(EXPERIMENT, wildcards.scale))


@told
def errata_digest(wildcards):
    """What Snakemake compares of the errata, which have no input of their own: all that their page says."""
    return files.digest_json(forms.plain(EXPERIMENT.errata.entries))


def all_cores(wildcards):
    return workflow.cores or 1


@told
def surface_settings(wildcards):
    own = {"set": wildcards.on.removeprefix(".")} if wildcards.on else {}
    return analyses.options(EXPERIMENT, "surface", wildcards.scale, wildcards.protocol, **own)


@told
def line_settings(wildcards):
    return analyses.options(EXPERIMENT, "line", wildcards.scale, wildcards.protocol)


@told
def hessian_settings(wildcards):
    return analyses.options(EXPERIMENT, "hessian", wildcards.scale, wildcards.protocol)


def other_folder(wildcards):
    """The folder of the run at the end of a line."""
    ids = (wildcards.scale, wildcards.protocol, wildcards.other_split, wildcards.other, wildcards.seed)
    return PLACES.run(RunIds(*ids))


def analysed_beside(wildcards):
    return [f"{other_folder(wildcards)}/{name}" for name in ("run.json", "model.safetensors")]


def at_the_lines_end(wildcards):
    return ["--line-to", other_folder(wildcards)]
