"""The recipes under docs/, followed to the letter: their files written, their commands run."""

import json
import re
import shutil
import tarfile

import numpy
import pandas
import pytest
from PIL import Image
from project import REPOSITORY, ROWS, RUNS

from samples import sampled

FILE = re.compile(
    r"^`(?P<path>[^`\n]+)` \((?P<how>new|append)\):\n\n```\w+\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
COMMANDS = re.compile(r"^```sh\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
PUBLISHED = "results/published/cifar10-cnn"
TABLES = "results/preview/tables"


def follow(project, page):
    """Write the files of a page and run its commands."""
    text = (REPOSITORY / "docs" / page).read_text()
    for step in FILE.finditer(text):
        file = project.root / step["path"]
        assert file.exists() == (step["how"] == "append")
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as stream:
            stream.write(step["body"])
    for commands in COMMANDS.finditer(text):
        project.by_hand(commands["body"])


def archive_of_blobs(project):
    """Write the archive that add-a-dataset.md declares."""
    generator, arrays = numpy.random.default_rng(0), {}
    for part, images in (("train", 400), ("test", 100)):
        arrays[f"{part}_labels"] = numpy.arange(images) % 4
        arrays[f"{part}_images"] = generator.integers(0, 256, (images, 8, 8), "uint8")
    numpy.savez(project.root / "blobs.npz", **arrays)


def folder_of_photos(project):
    """Write the images that your-own-data.md declares."""
    generator = numpy.random.default_rng(0)
    for part, images in (("train", 40), ("test", 10)):
        for label, name in enumerate(("barn", "fox", "owl", "pond")):
            folder = project.root / "photos" / part / name
            folder.mkdir(parents=True)
            for number in range(images):
                pixels = generator.integers(0, 90, (20 + number % 5, 24, 3), "uint8")
                pixels[5 * label : 5 * label + 5] += 120
                Image.fromarray(pixels).save(folder / f"{number}.png")


def copies(*folders):
    """Return a function that copies ``folders`` of the repository, which a page names."""

    def copy(project):
        for folder in folders:
            shutil.copytree(REPOSITORY / folder, project.root / folder)
        (project.root / "docs").mkdir(exist_ok=True)

    return copy


def the_algorithm(project):
    run, other = (project.root / RUNS / row / "seed1/metrics.csv" for row in ("fedmedian", "fedavg"))
    assert run.read_text() != other.read_text()


def the_model(project):
    run = json.loads((project.root / "results/paper/runs/perceptron/dir0.6-100/fedsmoo/seed2/run.json").read_text())
    assert run["parameters"] == 64 * 32 + 32 + 32 * 10 + 10 and len(run["versions"]["model"]) == 64
    folders = "model_folders=[mine]", "table_folders=[mine]"
    assert project.planned("--config", *folders, "--", "results/paper/tables/perceptron_T1.md") == {}


def the_dataset(project):
    images = numpy.load(project.root / "resources/blobs/images.npy")
    assert images.shape == (500, 1, 8, 8)
    assert (images[:400, 0] == numpy.load(project.root / "blobs.npz")["train_images"]).all()


def the_table(project):
    text = (project.root / TABLES / "mine_T1.md").read_text()
    assert all(name in text for name in ("FedAvg", "FedSAM", "FedSMOO", "strong heterogeneity"))


def the_photos(project):
    text = (project.root / "results/paper/tables/photos.md").read_text()
    for words in ("FedAvg", "FedSAM", "FedSMOO", "FedLESAM", "photos (200 images of 32x32), 10 clients, 50% active"):
        assert words in text
    assert "paper" not in text.replace("results/paper/", "").lower()
    assert len((project.root / "config/tables/photos.yaml").read_text().splitlines()) <= 15
    assert project.planned("results/paper/tables/photos.md") == {}


def the_comparison(project):
    for page in ("docs/disputed.md", "docs/effects.md"):
        assert (project.root / page).read_text() == (REPOSITORY / page).read_text()
    assert "ive of the 48 generalization errors" in (project.root / "results/errata.html").read_text()


def the_imported_runs(project):
    with tarfile.open(project.root / "runs.tar") as archive:
        runs = {name for name in archive.getnames() if name.endswith("run.json")}
    here = {str(path.relative_to(project.root)) for path in (project.root / "results").glob("*/runs/*/*/*/*/run.json")}
    assert len(runs) >= len(ROWS) and runs <= here
    table = "cifar10_cnn.md"
    assert (project.root / "again" / table).read_text() == (REPOSITORY / PUBLISHED / table).read_text()


def the_method(project):
    """The table has the page's columns and rows; its runs are shorter than the page's."""
    table = (project.root / TABLES / "my_table.md").read_text()
    page = (REPOSITORY / "docs/compare-your-method.md").read_text()
    shown, printed = ([line for line in text.splitlines() if line.startswith("| ")] for text in (table, page))
    assert shown[:2] == printed[:2] and len(shown) == 7
    assert [line.split("|")[1] for line in shown] == [line.split("|")[1] for line in printed[:7]]


def the_module(project):
    cells = project.root / "elsewhere/results/federated/preview/cells"
    assert [path.name for path in cells.rglob("*.json")] == ["fedavg.json"]


def the_answers(project):
    assert (project.root / "results/preview/figures/three_curves.png").exists()
    assert pandas.read_csv(project.root / TABLES / "two_rows.csv").set_index("row").n["fedsam"] == 5
    values = pandas.read_csv(project.root / TABLES / "two_rhos.csv").set_index("row").value
    assert values["fedsam"] != values["fedsam~rho0.05"]


#: Page -> what makes the files that its reader has, and what looks at the results.
RECIPES = {
    "add-an-algorithm.md": (None, the_algorithm),
    "add-a-model.md": (None, the_model),
    "add-a-dataset.md": (archive_of_blobs, the_dataset),
    "your-own-data.md": (folder_of_photos, the_photos),
    "use-as-a-module.md": (None, the_module),
    "add-a-table.md": (None, the_table),
    "questions.md": (None, the_answers),
    "compare-with-a-paper.md": (copies("studies", "results/published/effects"), the_comparison),
    "runs-from-elsewhere.md": (copies(f"{PUBLISHED}/runs"), the_imported_runs),
    "compare-your-method.md": (
        copies("results/published/fedsmoo-cifar10", "results/published/orders", "docs/my-paper"),
        the_method,
    ),
}

#: Of any two pages, each is followed before the other in one of the orders. `make test` follows three pages.
ORDERS = {"basic": ["add-an-algorithm.md", "add-a-dataset.md", "compare-your-method.md"]}
ORDERS |= {"forward": list(RECIPES), "reverse": list(reversed(RECIPES))}


def files(project):
    return {path.relative_to(project.root) for path in project.root.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("order", sampled(ORDERS, ["basic"]))
def test_recipes_in_one_clone(project, order):
    project.edit_yaml("config/config.yaml", lambda config: config.pop("seeds"))
    for page in ORDERS[order]:
        prepare, look = RECIPES[page]
        if prepare:
            prepare(project)
        before = files(project)
        follow(project, page)
        look(project)
        if page == "use-as-a-module.md":
            assert {path.parts[0] for path in files(project) - before} == {"elsewhere"}
    assert "train" not in project.planned("--config", "seeds=[1]")
