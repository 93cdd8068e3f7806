"""The frame: packaging that agrees with itself, and the house rules that can be checked by reading."""

import os
import re
import subprocess
import sys
import tomllib

import yaml

from flatfed import __version__
from repository import ROOT, SRC

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Name on PyPI -> name on conda-forge or bioconda, where they differ.
CONDA = {"torch": "pytorch", "snakemake": "snakemake-minimal", "matplotlib": "matplotlib-base"}

#: Packages that no job needs.
NOT_FOR_JOBS = ["rich", "snakemake-minimal", "tqdm", "pytest", "pytest-xdist", "ruff", "snakefmt"]
NOT_FOR_JOBS += ["snakemake-executor-plugin-slurm"]


def split(requirement):
    """Return (name, bounds) of a requirement such as ``torch>=2.11,<2.15`` or ``pytorch >=2.11,<2.15``."""
    return re.fullmatch(r"([^<>=! ]*) *(.*)", requirement).groups()


def environment(name):
    """Return the packages of a conda environment, and those that pip installs there."""
    *packages, from_pip = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["dependencies"]
    return packages, from_pip["pip"]


def test_one_version_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)[1]
    assert PROJECT["version"] == cited["version"] == newest == __version__


def test_the_environments_have_the_packages_and_bounds_of_pyproject():
    """Snakemake creates the jobs' from a copy in another folder, so that it cannot hold this clone's own package."""
    pip = dict(map(split, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]))
    packages, from_pip = environment("environment.yml")
    assert from_pip[-1] == "-e .", "the command flatfed, of this clone"
    conda = dict(split(entry) for entry in [*packages, *from_pip[:-1]] if entry != "pip")
    assert conda.pop("python") == PROJECT["requires-python"]
    assert conda == {CONDA.get(name, name): bounds for name, bounds in pip.items()} and all(conda.values())
    of_jobs = [entry for entry in packages if split(entry)[0] not in NOT_FOR_JOBS]
    assert environment("workflow/envs/jobs.yml") == (of_jobs, from_pip[:-1])


def test_the_least_snakemake_reads_the_times_of_a_profile_as_minutes():
    """9.16 to 9.19 read them as seconds, and Slurm ends such jobs."""
    bounds = dict(map(split, PROJECT["dependencies"]))["snakemake"]
    assert tuple(map(int, re.match(r">=(\d+)\.(\d+)", bounds).groups())) >= (9, 20)
    least = re.search(r'min_version\("(\d+)\.(\d+)\.0"\)', (ROOT / "workflow/Snakefile").read_text())
    assert f">={'.'.join(least.groups())}," in bounds


def test_imports_are_light():
    code = """if True:
        import sys
        from flatfed import cli, gpus, models, plan
        models.check_options("cnn", {})
        sys.exit(not sys.modules.keys().isdisjoint({"torch", "pandas", "snakemake"}))"""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=True)


def test_files_are_short_and_rules_hold_no_logic_and_quote_all_values():
    long, logic = [], r"lambda|^ *(run|script|notebook|wrapper|cwl):|\b(workflow|shell|job|rules|snakemake)\b[\w.]*\._"
    for path in [*SRC.rglob("*.py"), *(ROOT / "workflow").rglob("*.smk")]:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 300:
            long.append(path)
        if path.suffix == ".smk":
            found = {match[0] for match in re.finditer(logic, text, flags=re.M)}
            assert not found, (path, found)
            for command in re.findall(r"^( *)shell:\n((?:\1 +.*\n)+)", text, flags=re.M):
                values = re.findall(r"\{([^{}]*)\}", command[1])
                assert values and all(value.endswith(":q") for value in values), (path, command)
    assert long == []
