"""The frame: packaging that agrees with itself, and the house rules that can be checked by reading."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from flatfed import __version__
from repository import ROOT, SRC

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: The pins of requirements.lock, with their markers.
PINS = re.findall("^[^ #].*", (ROOT / "requirements.lock").read_text(encoding="utf-8"), flags=re.M)


def split(requirement):
    """Return (name, bounds) of a requirement such as ``torch>=2.11,<2.15``."""
    return re.fullmatch(r"([^<>=! ]*) *(.*)", requirement).groups()


def test_one_version_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["preferred-citation"]["version"] == cited["version"]
    assert cited["preferred-citation"]["title"] == cited["title"]
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)[1]
    assert PROJECT["version"] == cited["version"] == newest == __version__


def test_the_lock_has_one_version_of_each_package_within_the_bounds():
    """Python 3.11 and 3.12 get the same versions, so a test on one of them tells something about the other."""
    pins = list(map(Requirement, PINS))
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins)
    for entry in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        requirement = Requirement(entry)
        assert requirement.specifier and requirement.specifier.contains(versions[requirement.name]), entry


@pytest.mark.parametrize(("file", "own"), [("environment.yml", ["-e ."]), ("workflow/envs/jobs.yml", [])])
def test_conda_installs_python_and_pip_and_pip_the_pins_of_the_lock(file, own):
    """The environment of the jobs lacks this clone's package: Snakemake creates it from a copy in another folder."""
    content = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    assert content["channels"] == ["conda-forge", "nodefaults"]
    assert content["dependencies"] == [f"python {PROJECT['requires-python']}", "pip", {"pip": PINS + own}]


def test_the_least_snakemake_reads_the_times_of_a_profile_as_minutes():
    """9.16 to 9.19 read them as seconds, and Slurm ends such jobs."""
    bounds = dict(map(split, PROJECT["dependencies"]))["snakemake"]
    assert tuple(map(int, re.match(r">=(\d+)\.(\d+)", bounds).groups())) >= (9, 20)
    least = re.search(r'min_version\("(\d+)\.(\d+)\.0"\)', (ROOT / "workflow/Snakefile").read_text())
    assert f">={'.'.join(least.groups())}," in bounds


def test_imports_are_light():
    code = """if True:
        import sys
        import flatfed
        assert "numpy" not in sys.modules
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
