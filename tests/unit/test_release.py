"""What goes with a release: one version everywhere, its changes, and a pipeline that calls what the README calls."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from flatfed import __version__

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)[1]
    assert project["version"] == cited["version"] == newest == __version__


def test_the_pipeline_calls_what_the_makefile_has():
    commands = [step["run"] for job in PIPELINE["jobs"].values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    made = [command.removeprefix("make ") for command in commands if command.startswith("make ")]
    assert sorted(made) == ["lint", "quickstart", "test"] and set(made) <= set(targets)
    ours = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "\nmake lint\n" in ours and "\nmake test\n" in ours
    assert commands[-1].startswith(".venv/bin/snakemake --report ")


def test_the_pipeline_tries_every_python_that_is_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    low, high = re.match(r">=3\.(\d+),<3\.(\d+)$", project["requires-python"]).groups()
    tried = PIPELINE["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert tried == [f"3.{minor}" for minor in range(int(low), int(high))]
