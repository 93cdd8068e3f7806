"""The frame: packaging that agrees with itself, and the house rules that can be checked by reading."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from repository import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))

#: Name on PyPI -> name on conda-forge or bioconda, where they differ.
CONDA = {"torch": "pytorch", "snakemake": "snakemake-minimal", "matplotlib": "matplotlib-base"}


def split(requirement):
    """Return (name, bounds) of a requirement such as ``torch>=2.11,<2.15`` or ``pytorch >=2.11,<2.15``."""
    start = next((i for i, character in enumerate(requirement) if character in "<>=! "), len(requirement))
    return requirement[:start], requirement[start:].strip()


def test_environment_has_the_packages_and_bounds_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pip = dict(map(split, wanted))
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    listed = [entry for entry in environment if isinstance(entry, str) and entry != "pip"]
    from_pip = [entry for group in environment if isinstance(group, dict) for entry in group["pip"]]
    assert from_pip.pop() == "-e .", "the command flatfed, of this clone"
    conda = dict(map(split, listed)) | dict(map(split, from_pip))
    assert conda.pop("python") == project["requires-python"]
    assert conda == {CONDA.get(name, name): bounds for name, bounds in pip.items()}
    assert all(bounds for bounds in pip.values())


def test_the_least_snakemake_reads_the_times_of_a_profile_as_minutes():
    """9.16 to 9.19 read them as seconds, and Slurm ends such jobs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bounds,) = (split(entry)[1] for entry in project["dependencies"] if split(entry)[0] == "snakemake")
    assert tuple(map(int, re.match(r">=(\d+)\.(\d+)", bounds).groups())) >= (9, 20)
    least = re.search(r'min_version\("(\d+)\.(\d+)\.0"\)', (ROOT / "workflow/Snakefile").read_text())
    assert f">={'.'.join(least.groups())}," in bounds


def test_the_jobs_environment_has_a_part_of_the_packages_with_the_same_bounds():
    """Snakemake creates it from a copy in another folder, so that it cannot hold this clone's own package."""
    whole, jobs = (
        yaml.safe_load((ROOT / name).read_text())["dependencies"]
        for name in ("environment.yml", "workflow/envs/jobs.yml")
    )
    (own,) = (entry["pip"] for entry in whole if isinstance(entry, dict))
    rest = [entry for entry in whole if isinstance(entry, str) and entry not in jobs]
    assert jobs == [*(entry for entry in whole if entry in jobs), {"pip": own[:-1]}]
    outside = (
        "snakemake-minimal",
        "tqdm",
        "pytest",
        "pytest-xdist",
        "ruff",
        "snakemake-executor-plugin-slurm",
        "snakefmt",
    )
    assert tuple(split(entry)[0] for entry in rest) == outside


@pytest.mark.parametrize("module", ["flatfed.cli", "flatfed.plan", "flatfed.gpus", "flatfed.tables.cells"])
def test_import_is_light(module):
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'pandas', 'snakemake')))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_source_never_imports_snakemake_and_stays_short(path):
    text = path.read_text()
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    assert "snakemake" not in names
    assert text.count("\n") <= 300


@pytest.mark.parametrize("path", sorted((ROOT / "workflow").rglob("*.smk")), ids=lambda path: path.name)
def test_rules_stay_short_and_hold_no_logic(path):
    text = path.read_text()
    assert text.count("\n") <= 300
    assert "lambda" not in text
    assert "run:" not in [line.strip() for line in text.splitlines()]
    assert path.name == "private.smk" or not re.search(r"\b(workflow|shell|job|rules|snakemake)\b[\w.]*\._", text)
