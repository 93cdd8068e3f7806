"""Results that cannot be written to: nothing is started, nothing is lost, and the message says what to do."""

import subprocess

import pytest

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
DEALT = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100"


@pytest.fixture
def results(project):
    """The project's results on a file system that can only be read."""
    folder = project.root / "results"
    made = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr.strip()}")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], capture_output=True)  # unless the test has done it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{RUNS}/fedavg/seed2/run.json"], f"{DEALT}: read-only file system; results, resources, logs and"),
        (["--forcerun", f"{RUNS}/fedavg/seed1/run.json"], "Write-protected output files for rule train"),
    ],
    ids=["a new run", "a run made again"],
)
def test_snakemake_starts_nothing_and_goes_on_when_it_can_be_written_to(project, results, arguments, words):
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    done = project.snakemake(*arguments)
    assert done.returncode != 0
    assert words in done.text and "Traceback" not in done.text and "Execute " not in done.text
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before
    assert project.snakemake("--dry-run", f"{RUNS}/fedavg/seed2/run.json").returncode == 0
    subprocess.run(["umount", results], check=True)
    project.make(*arguments)
    assert project.planned(*arguments[-1:]) == {}
