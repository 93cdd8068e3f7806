# Seals: hidden files next to tables, figures, pages and cells, with the digest of their content, code and files.


# Report once why jobs are forced.
@functools.cache
def say_unsealed():
    if workflow.is_main_process:
        logger.info("Outputs without a valid seal are rebuilt: settings, numbers, code or files changed")


def rebuild_unsealed(paths, seal, wildcards, inputs=()):
    """Force the job of existing files that do not have its present seal, as `--forcerun` does.

    Snakemake itself sees neither an edited output, nor another run with an old time, nor, without its records (copied results),
    other settings. Input functions call this, because Snakemake calls them before it decides what to run.
    """
    if all(map(os.path.exists, paths)) and not files.are_sealed(paths, seal(wildcards), inputs):
        workflow.dag.forcefiles.update(paths)
        say_unsealed()


@reports_errors
def seal_of(content):
    """Return a digest of what a short job shows and of its code."""
    return files.digest_json([content, CODE])[:16]


def cell_seal(wildcards):
    return seal_of(cell_digest(wildcards))


def table_seal(wildcards):
    return seal_of(table_digest(wildcards))


def figure_seal(wildcards):
    return seal_of(figure_digest(wildcards))


def report_seal(wildcards):
    return seal_of(report_digest(wildcards))


@reports_errors
def errata_seal(wildcards):
    return seal_of(digest(EXPERIMENT.errata.entries))
