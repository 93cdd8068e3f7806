"""FlatFed as a module of another workflow: with data and set-ups of its own, and from a release on GitHub."""

import shutil
import subprocess

import pytest
from project import REPOSITORY, Project, jobs_of

import own_files
from samples import full

OUTER = """
configfile: "{root}/config/config.yaml"


config.update(tables=["photos"], figures=[], folders=["own"], scale="paper")


module flatfed:
    snakefile:
        "{root}/workflow/Snakefile"
    config:
        config
    pathvars:
        results="results/federated",


use rule * from flatfed as flatfed_*


rule all:
    default_target: True
    input:
        "results/federated/paper/tables/photos.md",
"""
#: What snakedeploy writes.
DEPLOYED = """
from snakemake.utils import min_version

min_version("6.10.0")


configfile: "config/config.yaml"


module flatfed:
    snakefile:
        github("somebody/flatfed", path="workflow/Snakefile", tag="v1.0")
    config:
        config


use rule * from flatfed
"""


def test_data_protocols_and_splits_come_from_outside_our_tree(untouched, tmp_path):
    """Under set-threads, as the page says, the prefix goes before a rule's name."""
    own_files.photos(tmp_path)
    (tmp_path / "own/photos.yaml").write_text(own_files.TEXT)
    (tmp_path / "Snakefile").write_text(OUTER.format(root=untouched.root))
    text = Project(tmp_path).make("--dry-run", "--printshellcmds", "--set-threads", "flatfed_train=2").text
    planned = jobs_of(text)
    partitions = {f"results/federated/paper/partitions/photos/skewed/seed{seed}.npz" for seed in (1, 2)}
    assert planned["fetch"] == {"resources/photos"} and planned["partition"] == partitions
    assert len(planned["train"]) == 8 and len(planned["table"]) == 1
    assert text.count("--threads 2") == 8


@pytest.fixture
def published(tmp_path):
    """The project as somebody's repository on GitHub, with a release; git finds it on this machine instead."""
    served = Project.copied(tmp_path / "github/somebody/flatfed").root
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"], ["tag", "v1.0"]):
        subprocess.run(["git", *words], cwd=served, check=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/github/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@full
@pytest.mark.skipif(not shutil.which("git"), reason="no git here, which Snakemake fetches workflows with")
def test_what_snakedeploy_writes_runs(published, tmp_path):
    """Step 2 of the catalog's page: the configuration copied, the workflow a module from the release on GitHub."""
    theirs = Project(tmp_path / "theirs")
    (theirs.root / "workflow").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "config", theirs.root / "config")
    (theirs.root / "workflow/Snakefile").write_text(DEPLOYED)
    theirs.edit_yaml("config/config.yaml", lambda config: config.update(tables=["fedlesam2024_T7"], figures=[]))
    text = theirs.make("--dry-run", env=published).text
    assert "Table fedlesam2024_T7 at preview scale" in text and "fedsmoo2023_T6" not in text
    target = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz"
    theirs.make(target, env=published)
    assert (theirs.root / target).exists() and (theirs.root / "resources/digits/dataset.json").exists()
    assert len(list((theirs.root / ".snakemake/flatfed").glob("*/src"))) == 1, "fetched once"
