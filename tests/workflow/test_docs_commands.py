"""Every command of README and of the pages that are no recipes, run; dry where it would train or needs another host."""

import re
import sys

import numpy
import pytest
from project import PARTS, REPOSITORY, Project

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
    return [line for line in (re.sub(r"\s+#.*", "", line).strip() for line in lines) if line]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A project as it is cloned, with images for CIFAR-10's place and the commands that `make` installs."""
    project = Project.copied(tmp_path_factory.mktemp("fresh"), parts=(*PARTS, "Makefile", "pyproject.toml"))
    numpy.savez(project.root / "cifar10.npz", train_images=numpy.zeros((1, 32, 32, 3), "uint8"))
    command = project.root / "bin/flatfed"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom flatfed.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    return project


@pytest.mark.parametrize("page", sampled(PAGES, ["README.md"]))
def test_every_command_of_a_page_runs(fresh, page):
    assert commands(page)
    for line in commands(page):
        if line not in ELSEWHERE:
            start = next((start for start in DRY if line.startswith(start)), "")
            fresh.by_hand(DRY.get(start, "") + line.removeprefix(start), fresh.root / "bin")
