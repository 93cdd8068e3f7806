# Jobs of seconds: tables, cells, figures and pages. A seal is a hidden file next to their outputs, with the digest of their content,
# code and files.


# Report once why jobs are forced.
@functools.cache
def say_unsealed():
    if workflow.is_main_process:
        logger.info("Outputs without a valid seal are rebuilt: settings, numbers, code or files changed")


# Files that a job writes, what they show, and files that it reads.
Description = namedtuple("Description", "outputs content inputs", defaults=[()])


class ShortJob:
    """Parameters and inputs of a job, from its wildcards.

    ``describe``: function of the wildcards that returns a :data:`Description`.
    """

    def __init__(self, describe):
        self.describe = functools.cache(describe)
        self.digest_of = functools.cache(self._digest_of)

    def _digest_of(self, **ids):
        return digest(*self.describe(**ids).content)

    @reports_errors
    def of(self, wildcards):
        return self.describe(**dict(wildcards.items()))

    @reports_errors
    def digest(self, wildcards):
        return self.digest_of(**dict(wildcards.items()))

    @reports_errors
    def seal(self, wildcards):
        """Return a digest of what the job shows and of its code."""
        return files.digest_json([self.digest(wildcards), CODE])[:16]

    @reports_errors
    def inputs(self, wildcards):
        """Return the files that the job reads; force it, as `--forcerun` does, if its outputs do not have its present seal.

        Snakemake itself sees neither an edited output, nor another run with an old time, nor, without its records (copied results),
        other settings. It calls input functions before it decides what to run.
        """
        outputs, _, inputs = self.of(wildcards)
        if all(map(os.path.exists, outputs)) and not files.are_sealed(outputs, self.seal(wildcards), inputs):
            workflow.dag.forcefiles.update(outputs)
            say_unsealed()
        return inputs


@ShortJob
def cell_job(scale, table, column, row):
    of_cell = numbers.numbers(EXPERIMENT, scale, table, [column], row)
    return Description([PATHS.cell(scale, table, column, row)], [of_cell], number.inputs(of_cell))


@ShortJob
def table_job(scale, table):
    spec = at_scale.table(EXPERIMENT, scale, table, EXPERIMENT.requested.tables.get(table))
    return Description(PATHS.table(scale, table), [spec], number.inputs(spec.numbers))


@ShortJob
def figure_job(scale, figure):
    spec = at_scale.figure(EXPERIMENT, scale, figure)
    return Description(PATHS.figure(scale, figure), [spec], spec.inputs)


@ShortJob
def report_job(scale):
    inputs = outputs(scale, EXPERIMENT.existing(scale, EXPERIMENT.requested))
    return Description([PATHS.report(scale)], [at_scale.report(EXPERIMENT, scale)], inputs)


@ShortJob
def errata_job():
    entries = {name: entry.as_written() for name, entry in EXPERIMENT.errata.entries.items()}
    return Description([PATHS.errata], [entries])


# The captions of Snakemake's report.
def table_printed(wildcards):
    """Return whether the table shows the paper's numbers."""
    (table,) = table_job.of(wildcards).content
    return table.printed


def figure_caption(wildcards):
    """Return kind and set-up of a figure."""
    (figure,) = figure_job.of(wildcards).content
    return [figure.kind, figure.setting]
