"""Jobs find flatfed by PYTHONPATH alone, and the environment they run in is the one Snakemake was told."""

import json
import os
import sysconfig
import venv
from pathlib import Path

from project import COLUMN, TABLE

CELL = f"results/preview/cells/{TABLE}/{COLUMN}/fedavg.json"
ECHO = """#!/bin/sh
echo "$@" >> {record}
case "$*" in
*"info --json"*) echo '{{"conda_prefix": "{prefix}", "root_prefix": "{prefix}", "platform": "linux-64"}}' ;;
*"config --get channel_priority"*) echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
*"--version"*) echo "conda 24.11.0" ;;
esac
"""


def test_a_python_with_the_packages_but_not_flatfed_is_enough(project, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(project.call(python, "-c", where).stdout.strip())
    # A folder named in a .pth is searched for packages, but what it holds itself of .pth files (ours) is not read.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import importlib.util, sys, snakemake; sys.exit(importlib.util.find_spec('flatfed') is not None)"
    assert project.call(python, "-c", code).returncode == 0, "flatfed is installed, so this test shows nothing"
    done = project.call(python, "-m", "snakemake", "--cores", "2", "--force", CELL)
    assert done.returncode == 0, done.text
    assert json.loads((project.root / CELL).read_text())["status"] == "ok"


def test_conda_is_asked_for_the_environment_of_the_project(project, tmp_path):
    conda, record = tmp_path / "conda/bin/conda", tmp_path / "asked"
    conda.parent.mkdir(parents=True)
    conda.write_text(ECHO.format(record=record, prefix=conda.parents[1]))
    conda.chmod(0o755)
    (conda.parent / "activate").write_text(f'echo "activate $*" >> {record}\n')
    path = os.pathsep.join([str(conda.parent), os.environ["PATH"]])
    triggers = ("--rerun-triggers", "mtime")  # else Snakemake, rightly, would make all again in the new environment
    project.make("--use-conda", "--force", *triggers, "--", CELL, env={"PATH": path})
    asked = record.read_text().splitlines()
    create = next(line for line in asked if " create " in f" {line} ")
    copy = Path(next(word for word in create.split() if word.endswith(".yaml")))
    assert copy.read_text() == (project.root / "workflow/envs/jobs.yml").read_text()
    assert any(line.startswith("activate ") for line in asked)
    assert json.loads((project.root / CELL).read_text())["status"] == "ok"
