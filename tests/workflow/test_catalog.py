"""What the Snakemake workflow catalog asks of a repository, and that what it tells its readers to do works."""

import shutil
import subprocess

import jsonschema
import pytest
import yaml
from project import REPOSITORY, Project

from samples import sampled

GITHUB = 'github("somebody/flatfed"'
CATALOG = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())
# github.com/snakemake/snakemake-workflow-catalog: README.md, "Standardized usage workflows", and
# scripts/generate-catalog.py, which reads mandatory-flags, software-stack-deployment and report out of `usage`.
SCHEMA = {
    "type": "object",
    "required": ["usage"],
    "additionalProperties": False,
    "properties": {
        "usage": {
            "type": "object",
            "required": ["mandatory-flags", "software-stack-deployment", "report"],
            "additionalProperties": False,
            "properties": {
                "mandatory-flags": {
                    "type": "object",
                    "required": ["desc", "flags"],
                    "additionalProperties": False,
                    "properties": {
                        "desc": {"type": ["string", "null"]},
                        "flags": {"type": ["string", "array", "null"]},
                    },
                },
                "software-stack-deployment": {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"enum": ["conda", "apptainer", "apptainer+conda", "report"]},
                    "additionalProperties": {"type": "boolean"},
                },
                "report": {"type": "boolean"},
            },
        }
    },
}


def test_the_entry_has_the_form_that_the_catalog_reads():
    jsonschema.validate(CATALOG, SCHEMA)


def test_what_the_entry_says_is_true():
    usage = CATALOG["usage"]
    rules = "\n".join(file.read_text() for file in (REPOSITORY / "workflow/rules").glob("*.smk"))
    deployment = usage["software-stack-deployment"]
    assert deployment["conda"] == ("conda:" in rules)
    assert deployment.get("apptainer", False) == ("container" in rules)
    assert usage["report"] == deployment["report"] == ("report(" in rules), "either place is read, by some version"
    assert usage["mandatory-flags"]["flags"] is None, "it runs without any, as the next test does"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The project as somebody's repository on GitHub, with a release; git finds it on this machine instead."""
    served = tmp_path / "github/somebody/flatfed"
    served.mkdir(parents=True)
    Project.copied(served)
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"], ["tag", "v1.0"]):
        subprocess.run(["git", *words], cwd=served, check=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/github/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.mark.skipif(not shutil.which("git"), reason="no git here, which Snakemake fetches workflows with")
@pytest.mark.parametrize("source", sampled([GITHUB, 'gitfile("../github/somebody/flatfed"'], [GITHUB]))
def test_what_snakedeploy_writes_runs(published, tmp_path, source):
    """Step 2 of the catalog's page: the configuration copied, the workflow a module from the release on GitHub."""
    theirs = Project(tmp_path / "theirs")
    (theirs.root / "workflow").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "config", theirs.root / "config")
    (theirs.root / "workflow/Snakefile").write_text(
        f"""
from snakemake.utils import min_version

min_version("6.10.0")


configfile: "config/config.yaml"


module flatfed:
    snakefile:
        {source}, path="workflow/Snakefile", tag="v1.0")
    config:
        config


use rule * from flatfed
"""
    )
    theirs.edit_yaml("config/config.yaml", lambda config: config.update(tables=["fedsmoo2023_T4"], figures=[]))
    planned = theirs.snakemake("--dry-run", env=published)
    assert planned.returncode == 0, planned.text
    assert "Table fedsmoo2023_T4 at preview scale" in planned.text and "fedsmoo2023_T6" not in planned.text
    target = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz"
    done = theirs.snakemake(target, env=published)
    assert done.returncode == 0, done.text
    assert (theirs.root / target).exists() and (theirs.root / "resources/digits/dataset.json").exists()
    assert len(list((theirs.root / ".snakemake/flatfed").glob("*/src"))) == 1, "fetched once"
