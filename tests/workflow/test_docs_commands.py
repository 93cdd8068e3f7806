"""Every command of README and of the pages that are no recipes, run; dry where it would train or needs another host."""

import os
import re
import stat
import sys

import numpy
import pytest
from project import REPOSITORY, Project

from samples import sampled

BLOCK = re.compile(r"^```sh\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)

#: Beginning of a command -> what is run in its place.
DRY = {
    "make ": "make --dry-run --always-make ",
    "snakemake ": "snakemake --dry-run --quiet all ",
    "sh ": "sh -n ",
}

#: What cannot be run here even dry, and why.
ELSEWHERE = {
    "flatfed import from-gpu-host/results/paper/runs": "takes runs that a GPU host has made",
    "flatfed rerun results/published/fedsmoo-cifar10/runs/path3-100/fedcm/seed1 --rounds 3 --out again": "its images",
}

PAGES = ("README.md", "docs/running.md", "docs/slurm.md", "docs/small-cnn.md")


def commands(page):
    """Return the commands of a page, without comments; a line that ends in a backslash goes on."""
    text = (REPOSITORY / page).read_text().replace("\\\n", " ")
    lines = [line for block in BLOCK.finditer(text) for line in block["body"].splitlines()]
    found = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [line for line in found if line]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A project as it is cloned, with images for CIFAR-10's place and the commands that `make` installs."""
    root = tmp_path_factory.mktemp("fresh")
    project = Project.copied(
        root,
        parts=("Snakefile", "Makefile", "pyproject.toml", "environment.yml", "config", "profiles", "src", "workflow"),
    )
    numpy.savez(root / "cifar10.npz", train_images=numpy.zeros((1, 32, 32, 3), "uint8"))
    (root / "bin").mkdir()
    command = root / "bin/flatfed"
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom flatfed.cli import main\nsys.exit(main())\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return project


@pytest.mark.parametrize("page", sampled(PAGES, ["README.md"]))
def test_every_command_of_a_page_runs(fresh, page):
    there = commands(page)
    assert there
    path = os.pathsep.join([str(fresh.root / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]])
    for line in there:
        if line in ELSEWHERE:
            continue
        start = next((start for start in DRY if line.startswith(start)), "")
        dry = DRY.get(start, "") + line.removeprefix(start)
        env = {"PATH": path, "PYTHONPATH": str(fresh.root / "src")}
        done = fresh.call("bash", "-euc", dry, env=env)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
