# All names of Snakemake that begin with an underscore, each with the issue of snakemake/snakemake that makes it necessary.


def shell_prefix():
    """Return the prefix of all shell commands, which modules share (issue 1400): Snakemake can set it, but not read it."""
    return shell._process_prefix or ""


def write_record(file, record):
    """Write Snakemake's record of an output, as `persistence.metadata` returned it before the call.

    For a failed job, Snakemake restores the old files (`update`) but records them as its complete outputs (issue 3808).
    """
    workflow.persistence._write_record(workflow.persistence._get_key(file), record)
