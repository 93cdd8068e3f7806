"""Results that cannot be written to: nothing is started, or the message says what to do, and nothing is lost.

File systems are mounted in a namespace of the process that is tried, so that a test that is killed leaves none behind.
"""

import subprocess

import pytest
from project import RUNS, SNAKEMAKE, contents

from samples import full

READ_ONLY = "mount --bind results results && mount -o remount,bind,ro results"


def snakemake(project, *arguments):
    """Call Snakemake where ``results`` is read-only."""
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here: that takes root, and `unshare --mount`")
    inside = ["unshare", "--mount", "sh", "-c", f'{READ_ONLY} && exec "$@"', "sh"]
    return project.call(*inside, *SNAKEMAKE, "--cores", "2", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{RUNS}/fedavg/seed2/run.json"], "results: read-only file system; results and resources need"),
        pytest.param(["--force", f"{RUNS}/fedavg/seed1/run.json"], "Write-protected output files for rule", marks=full),
    ],
    ids=["a new run", "a run made again"],
)
def test_read_only_results_start_nothing(project, arguments, words):
    before = contents(project.root / "results")
    done = snakemake(project, *arguments)
    assert done.returncode != 0
    assert words in done.text and "Traceback" not in done.text and "Execute " not in done.text
    assert contents(project.root / "results") == before
    assert snakemake(project, "--dry-run", f"{RUNS}/fedavg/seed2/run.json").returncode == 0
