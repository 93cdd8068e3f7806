"""The recipes under docs/, followed to the letter: their files written, their commands run."""

import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import numpy
import pytest
from PIL import Image
from project import REPOSITORY, ROWS

FILE = re.compile(
    r"^`(?P<path>[^`\n]+)` \((?P<how>new|append)\):\n\n```\w+\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
COMMANDS = re.compile(r"^```sh\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


def follow(project, page):
    """Write the files of a page and run its commands."""
    text = (REPOSITORY / "docs" / page).read_text()
    for step in FILE.finditer(text):
        file = project.root / step["path"]
        assert file.exists() == (step["how"] == "append")
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as stream:
            stream.write(step["body"])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for commands in COMMANDS.finditer(text):
        env = {"PATH": path, "PYTHONPATH": str(project.root / "src")}
        done = project.call("bash", "-euc", commands["body"], env=env)
        assert done.returncode == 0, done.stdout + done.stderr


def test_add_an_algorithm(project):
    follow(project, "add-an-algorithm.md")
    run = project.root / "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedmedian/seed1"
    other = run.parents[1] / "fedavg/seed1"
    assert (run / "metrics.csv").read_text() != (other / "metrics.csv").read_text()
    assert project.planned() == {}


def test_add_a_dataset(project):
    generator = numpy.random.default_rng(0)
    arrays = {}
    for part, images in (("train", 400), ("test", 100)):
        arrays[f"{part}_labels"] = numpy.arange(images) % 4
        arrays[f"{part}_images"] = generator.integers(0, 256, (images, 8, 8), "uint8")
    numpy.savez(project.root / "blobs.npz", **arrays)
    follow(project, "add-a-dataset.md")
    images = numpy.load(project.root / "resources/blobs/images.npy", mmap_mode="r")
    assert images.shape == (500, 1, 8, 8)
    assert (images[:400, 0] == arrays["train_images"]).all()


def test_add_a_table(project):
    follow(project, "add-a-table.md")
    text = (project.root / "results/preview/tables/mine_T1.md").read_text()
    for name in ("FedAvg", "FedSAM", "FedSMOO", "strong heterogeneity"):
        assert name in text


def test_your_own_data(project):
    generator = numpy.random.default_rng(0)
    for part, images in (("train", 40), ("test", 10)):
        for label, name in enumerate(("barn", "fox", "owl", "pond")):
            folder = project.root / "photos" / part / name
            folder.mkdir(parents=True)
            for number in range(images):
                pixels = generator.integers(0, 90, (20 + number % 5, 24, 3), "uint8")
                pixels[5 * label : 5 * label + 5] += 120
                Image.fromarray(pixels).save(folder / f"{number}.png")
    follow(project, "your-own-data.md")
    text = (project.root / "results/paper/tables/photos.md").read_text()
    for words in ("FedAvg", "FedSAM", "FedSMOO", "FedLESAM", "photos (200 images of 32x32), 10 clients, 50% active"):
        assert words in text
    for ending in ("md", "csv", "tex", "html"):
        text = (project.root / f"results/paper/tables/photos.{ending}").read_text()
        text = re.sub("<style>.*?</style>", "", text, flags=re.DOTALL)
        for known in ("results/paper/", "photos,paper,"):  # folders, the scale of the CSV
            text = text.replace(known, "")
        assert "paper" not in text.lower(), ending
    assert len((project.root / "config/tables/photos.yaml").read_text().splitlines()) <= 15
    assert project.planned("results/paper/tables/photos.md") == {}


def test_compare_with_a_paper(project):
    for folder in ("studies", "results/published/effects"):
        shutil.copytree(REPOSITORY / folder, project.root / folder)
    (project.root / "docs").mkdir()
    follow(project, "compare-with-a-paper.md")
    for page in ("docs/disputed.md", "docs/effects.md"):
        assert (project.root / page).read_text() == (REPOSITORY / page).read_text()
    assert "five of the 48 generalization errors" in (project.root / "results/errata.md").read_text()
    assert project.planned() == {}


def test_runs_from_elsewhere(project):
    published = "results/published/cifar10-cnn"
    shutil.copytree(REPOSITORY / published / "runs", project.root / published / "runs")
    follow(project, "runs-from-elsewhere.md")
    with tarfile.open(project.root / "runs.tar") as archive:
        runs = [name for name in archive.getnames() if name.endswith("run.json")]
    assert len(runs) == len(ROWS)
    table = "cifar10_cnn.md"
    assert (project.root / "again" / table).read_text() == (REPOSITORY / published / table).read_text()
    assert project.planned() == {}


def test_use_as_a_module(project):
    before = {path for path in project.root.rglob("*") if "__pycache__" not in path.parts}
    follow(project, "use-as-a-module.md")
    made = {path for path in project.root.rglob("*") if "__pycache__" not in path.parts} - before
    assert {path.relative_to(project.root).parts[0] for path in made} == {"elsewhere"}
    cells = project.root / "elsewhere/results/federated/preview/cells"
    assert [path.name for path in cells.rglob("*.json")] == ["fedavg.json"]


RECIPES = [
    *("add-an-algorithm.md", "add-a-dataset.md", "add-a-table.md", "compare-with-a-paper.md"),
    *("runs-from-elsewhere.md", "use-as-a-module.md", "your-own-data.md"),
]


@pytest.mark.parametrize("page", RECIPES)
def test_a_recipe_is_short(page):
    text = (REPOSITORY / "docs" / page).read_text()
    prose = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if line.strip()]
    assert len(prose) <= 12
