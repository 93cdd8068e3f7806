"""What the Snakemake workflow catalog tells its readers to do works."""

import shutil
import subprocess

import pytest
from project import REPOSITORY, Project

from samples import sampled

GITHUB = 'github("somebody/flatfed"'


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
    theirs.edit_yaml("config/config.yaml", lambda config: config.update(tables=["fedlesam2024_T7"], figures=[]))
    text = theirs.make("--dry-run", env=published).text
    assert "Table fedlesam2024_T7 at preview scale" in text and "fedsmoo2023_T6" not in text
    target = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz"
    theirs.make(target, env=published)
    assert (theirs.root / target).exists() and (theirs.root / "resources/digits/dataset.json").exists()
    assert len(list((theirs.root / ".snakemake/flatfed").glob("*/src"))) == 1, "fetched once"
