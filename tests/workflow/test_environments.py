"""`--use-conda`: conda's solver accepts the environment, jobs run in it, and find flatfed there by PYTHONPATH alone."""

import asyncio
import json
import os
import shutil
import sys
import sysconfig

import pytest
import yaml
from packaging.requirements import Requirement
from project import COLUMN, RUNS, TABLE

from repository import ROOT
from samples import full

CELL = f"results/preview/cells/{TABLE}/{COLUMN}/fedavg.json"
JOBS = ROOT / "workflow/envs/jobs.yml"

#: Conda as Snakemake calls it; `conda env create --quiet --no-default-packages --file F --prefix P` calls `create F P`.
CONDA = """#!/bin/sh
echo "$@" >> {prefix}/record
case "$*" in
*"info --json"*) echo '{{"conda_prefix": "{prefix}", "root_prefix": "{prefix}", "platform": "linux-64"}}' ;;
*"config --get channel_priority"*) echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
*"--version"*) echo "conda 24.11.0" ;;
"env create"*) sh -eu {prefix}/create "$6" "$8" ;;
esac
"""
ACTIVATE = """export PATH="$1/bin:$PATH"
echo "activate $(command -v python)" >> {prefix}/record
"""

#: The packages of these tests. A folder in a .pth is searched for packages, but its own .pth (flatfed's) is not read.
PACKAGES_OF_TESTS = f"""{sys.executable} -m venv --without-pip --symlinks "$2"
where="import sysconfig; print(sysconfig.get_path('purelib'))"
echo {sysconfig.get_path("purelib")} > "$("$2/bin/python" -c "$where")/packages.pth"
"""

#: The pins of the file.
PINS = """uv venv --quiet --no-python-downloads --python {python} "$2"
sed -n 's/^      - //p' "$1" > "$2.pins"
uv pip install --quiet --link-mode symlink --python "$2/bin/python" --requirement "$2.pins"
uv pip freeze --python "$2/bin/python" > "$2.freeze"
"""


def use_conda(project, prefix, create, *arguments):
    """Make the cell with a stand-in for conda at ``prefix``; return the environment's folder and the call's log."""
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    (prefix / "create").write_text(create)
    (prefix / "bin/activate").write_text(ACTIVATE.format(prefix=prefix))
    (prefix / "bin/conda").write_text(CONDA.format(prefix=prefix))
    (prefix / "bin/conda").chmod(0o755)
    path = os.pathsep.join([str(prefix / "bin"), os.environ["PATH"]])
    done = project.make("--use-conda", *arguments, "--", CELL, env={"PATH": path})
    (folder,) = {file.with_suffix("") for file in (project.root / ".snakemake/conda").glob("*.yaml")}
    assert folder.with_suffix(".yaml").read_text() == JOBS.read_text()
    return folder, done.text


def test_a_conda_environment_with_the_packages_but_not_flatfed_is_enough(project, tmp_path):
    prefix, triggers = tmp_path / "conda", ("--rerun-triggers", "mtime")  # else Snakemake would make all again there
    folder, _ = use_conda(project, prefix, PACKAGES_OF_TESTS, *triggers, "--force")
    code = "import importlib.util, sys, snakemake; sys.exit(importlib.util.find_spec('flatfed') is not None)"
    assert project.call(folder / "bin/python", "-c", code).returncode == 0, "flatfed is there: this shows nothing"
    assert f"activate {folder}/bin/python" in (prefix / "record").read_text().splitlines()
    assert "Nothing to be done" in use_conda(project, prefix, "exit 1", *triggers)[1]


@full
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv installs 6 GB here: pip install uv")
@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_jobs_train_with_the_pins_and_nothing_else(project, tmp_path, python):
    """A first call trains another seed in the new environment; the next one finds nothing to do."""
    if project.call("uv", "python", "find", "--no-python-downloads", python).returncode != 0:
        pytest.skip(f"no Python {python}")
    create, seed = PINS.format(python=python), ("--config", "seeds=[2]")
    folder, _ = use_conda(project, tmp_path / "conda", create, *seed)
    pins = map(Requirement, yaml.safe_load(JOBS.read_text())["dependencies"][-1]["pip"])
    of_python = {"python_version": python, "python_full_version": f"{python}.0"}
    expected = {f"{pin.name}{pin.specifier}" for pin in pins if pin.marker is None or pin.marker.evaluate(of_python)}
    assert set(folder.with_suffix(".freeze").read_text().split()) == expected
    libraries = project.record(f"{RUNS}/fedavg/seed2")["libraries"]
    assert libraries["python"].startswith(f"{python}.") and f"numpy=={libraries['numpy']}" in expected
    assert "Nothing to be done" in use_conda(project, tmp_path / "conda", "exit 1", *seed)[1]


def test_condas_solver_takes_a_python_that_flatfed_supports(tmp_path):
    """Solve the environment with a channel of empty packages."""
    rattler = pytest.importorskip("rattler", reason="py-rattler, in requirements.lock")
    versions = {"python": ["3.10.14", "3.11.9", "3.12.7", "3.13.1"], "pip": ["25.1"]}
    needed = {"python": [], "pip": ["python >=3.9"]}
    packages = {
        f"{name}-{version}-0.tar.bz2": {"name": name, "version": version, "build": "0", "build_number": 0}
        | {"depends": needed[name], "subdir": "noarch"}
        for name, numbers in versions.items()
        for version in numbers
    }
    for folder, content in ("noarch", packages), ("linux-64", {}):
        (tmp_path / folder).mkdir()
        index = {"info": {"subdir": folder}, "packages": content, "packages.conda": {}}
        (tmp_path / folder / "repodata.json").write_text(json.dumps(index))
    channel = rattler.Channel(tmp_path.as_uri())
    specs = [entry for entry in yaml.safe_load(JOBS.read_text())["dependencies"] if isinstance(entry, str)]
    records = asyncio.run(rattler.solve([channel], specs, platforms=["linux-64", "noarch"]))
    assert {record.name.normalized: str(record.version) for record in records} == {"python": "3.12.7", "pip": "25.1"}
