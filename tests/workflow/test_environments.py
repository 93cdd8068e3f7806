"""Jobs run in the conda environment that Snakemake was told, and find flatfed there by PYTHONPATH alone."""

import os
import sysconfig
import venv
from pathlib import Path

from project import COLUMN, TABLE

CELL = f"results/preview/cells/{TABLE}/{COLUMN}/fedavg.json"
CONDA = """#!/bin/sh
echo "$@" >> {record}
case "$*" in
*"info --json"*) echo '{{"conda_prefix": "{prefix}", "root_prefix": "{prefix}", "platform": "linux-64"}}' ;;
*"config --get channel_priority"*) echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
*"--version"*) echo "conda 24.11.0" ;;
esac
"""


def test_a_conda_environment_with_the_packages_but_not_flatfed_is_enough(project, tmp_path):
    """Conda is a script that notes what it is asked for; the environment is a venv, which it activates."""
    prefix, record = tmp_path / "conda", tmp_path / "asked"
    venv.create(prefix, symlinks=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(project.call(prefix / "bin/python", "-c", where).stdout.strip())
    # A folder named in a .pth is searched for packages, but what it holds itself of .pth files (ours) is not read.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import importlib.util, sys, snakemake; sys.exit(importlib.util.find_spec('flatfed') is not None)"
    assert project.call(prefix / "bin/python", "-c", code).returncode == 0, "flatfed is there: this shows nothing"
    conda = prefix / "bin/conda"
    conda.write_text(CONDA.format(record=record, prefix=prefix))
    conda.chmod(0o755)
    (prefix / "bin/activate").write_text(
        f'export PATH={prefix}/bin:$PATH\necho "activate $(command -v python)" >> {record}\n'
    )
    path = os.pathsep.join([str(conda.parent), os.environ["PATH"]])
    triggers = ("--rerun-triggers", "mtime")  # else Snakemake, rightly, would make all again in the new environment
    project.make("--use-conda", "--force", *triggers, "--", CELL, env={"PATH": path})
    asked = record.read_text().splitlines()
    create = next(line for line in asked if " create " in f" {line} ")
    copy = Path(next(word for word in create.split() if word.endswith(".yaml")))
    assert copy.read_text() == (project.root / "workflow/envs/jobs.yml").read_text()
    assert f"activate {prefix}/bin/python" in asked
