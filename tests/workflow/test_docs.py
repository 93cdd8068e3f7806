"""Commands of README and docs: recipes followed to the letter, other pages dry where they train or need a host."""

import itertools
import re
import shutil

import numpy
import pytest
import yaml
from PIL import Image
from project import PARTS, REPOSITORY, RUNS, Project, jobs_of

from samples import full, sampled

STEP = re.compile(
    r"^`(?P<path>[^`\n]+)` \((?P<how>new|append|change|part)\):\n\n```\w+\n(?P<body>.*?)^```$"
    r"|^```sh\n(?P<commands>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PUBLISHED = "results/published/cifar10-cnn"
TABLES = "results/preview/tables"


def follow(project, page):
    """Write the files of a page and run its commands, in their order; a "part" is in the file already."""
    for step in STEP.finditer(text_of(f"docs/{page}")):
        if step["commands"]:
            if not step["commands"].startswith("pdflatex") or shutil.which("pdflatex"):
                project.by_hand(step["commands"])
            continue
        file, how, body = project.root / step["path"], step["how"], step["body"]
        assert file.exists() == (how != "new")
        if how == "part":
            assert body in file.read_text()
        elif how == "change":
            project.edit_yaml(file, lambda content, body=body: content.update(yaml.safe_load(body)))
        else:
            file.parent.mkdir(exist_ok=True)
            with file.open("a") as stream:
                stream.write(body)


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


def copies(*paths):
    """Return a function that copies files and folders of the repository, which a page names."""

    def copy(project):
        for path in paths:
            if (REPOSITORY / path).is_dir():
                shutil.copytree(REPOSITORY / path, project.root / path, dirs_exist_ok=True)  # of another page, too
            else:
                shutil.copy2(REPOSITORY / path, project.root / path)
        (project.root / "docs").mkdir(exist_ok=True)

    return copy


def text_of(path):
    return (REPOSITORY / path).read_text()


#: Page -> what makes the files that its reader has, and results: file -> texts in it.
RECIPES = {
    "add-an-algorithm.md": (None, {f"{RUNS}/fedmedian/seed1/run.json": ['"algorithm": "fedmedian"']}),
    "add-a-model.md": (
        None,
        {"results/paper/runs/small_cnn/dir0.6-100/fedsmoo/seed2/run.json": [f'"parameters": {96 + 1200 + 650}']},
    ),
    "add-a-dataset.md": (archive_of_blobs, {"resources/blobs/dataset.json": ['"train": 400']}),
    "your-own-data.md": (
        folder_of_photos,
        {"results/paper/tables/photos.md": ["FedLESAM", "photos (200 images of 32x32), 10 clients, 50% active"]},
    ),
    "use-as-a-module.md": (
        None,
        {"elsewhere/results/federated/preview/cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedavg.json": ['"ok"']},
    ),
    "add-a-table.md": (None, {f"{TABLES}/mine_T1.md": ["FedAvg", "FedSAM", "FedSMOO", "strong heterogeneity"]}),
    "questions.md": (None, {f"{TABLES}/search_of_rho.csv": ["fedsam~rho0.03"]}),
    "compare-with-a-paper.md": (
        copies("studies", *(f"results/published/{name}" for name in ("effects", "fedsmoo-cifar10", "SHA256SUMS"))),
        {"docs/which-code.md": [text_of("docs/which-code.md")]},
    ),
    "runs-from-elsewhere.md": (
        copies(f"{PUBLISHED}/runs"),
        {"again/cifar10_cnn.md": [text_of(f"{PUBLISHED}/cifar10_cnn.md")]},
    ),
    "from-method-to-camera-ready.md": (
        copies("results/published/fedsmoo-cifar10", "results/published/orders", "docs/my-paper"),
        {
            f"{TABLES}/my_table.md": ["path3-200<br>n = 1 |", "| FedAvg ", "| MoFedSAM ", "| **MyMethod** "],
            f"{TABLES}/my_models.tex": ["Top eigenvalue", "Worst tenth"],
            "my-paper/differences.csv": ["fedavg", "fedsam"],
        },
    ),
}

#: Of any two pages, each is followed before the other in one of the orders.
ORDERS = {"forward": list(RECIPES), "reverse": list(reversed(RECIPES))}


def files(project):
    return {path.relative_to(project.root) for path in project.root.rglob("*") if "__pycache__" not in path.parts}


@full
@pytest.mark.parametrize("order", ORDERS)
def test_recipes_in_one_clone(project, order):
    project.edit_yaml("config/config.yaml", lambda config: config.pop("seeds"))
    for page in ORDERS[order]:
        prepare, results = RECIPES[page]
        if prepare:
            prepare(project)
        before, config = files(project), project.root / "config/config.yaml"
        keys = config.read_text()
        follow(project, page)
        config.write_text(keys)
        outside = {path.parts[0] for path in files(project) - before} - {"elsewhere"}
        assert page != "use-as-a-module.md" or not outside
        for path, texts in results.items():
            text = (project.root / path).read_text()
            assert [words for words in texts if words not in text] == [], path
    assert "train" not in project.planned("--config", "seeds=[1]")


#: Beginning of a command -> what is run in its place.
DRY = {"make ": "make --dry-run --always-make ", "snakemake ": "snakemake --dry-run --quiet all ", "sh ": "sh -n "}

#: Commands for images that are not here.
ELSEWHERE = ("flatfed rerun results/published/", "make -C results/published/")


PAGES = ("README.md", "docs/running.md", "docs/slurm.md", "docs/small-cnn.md")


@pytest.mark.parametrize("page", sampled(PAGES, PAGES[:1]))
def test_every_command_of_a_page_that_is_no_recipe_runs(tmp_path, page):
    project = Project.copied(tmp_path, parts=(*PARTS, "Makefile", "pyproject.toml", "requirements.lock"))
    numpy.savez(tmp_path / "cifar10.npz", train_images=numpy.zeros((1, 32, 32, 3), "uint8"))
    text = (REPOSITORY / page).read_text().replace("\\\n", " ")
    lines = [re.sub(r"\s+#.*", "", line).strip() for block in COMMANDS.findall(text) for line in block.splitlines()]
    commands = [line for line in lines if line and not line.startswith(("#", *ELSEWHERE))]
    assert commands
    for line in commands:
        start = next((start for start in DRY if line.startswith(start)), "")
        project.by_hand(DRY.get(start, "") + line.removeprefix(start))


def test_the_cell_of_readme_trains_its_two_runs_alone(tmp_path):
    """With the paper's report as a second target, the same command trained the 32 runs of all requested tables."""
    command = re.search(r"^snakemake (.*? -- .*?)$", text_of("README.md").replace("\\\n", " "), re.MULTILINE)[1]
    jobs = jobs_of(Project.copied(tmp_path).by_hand(f"snakemake --dry-run --printshellcmds {command}").text)
    assert {made: len(outputs) for made, outputs in jobs.items()}.items() >= {"train": 2, "cell": 1}.items()
    assert "table" not in jobs


def with_implied(arrows):
    """Return the arrows and those that chains of them imply."""
    while new := {(first, last) for first, end in arrows for start, last in arrows if end == start} - arrows:
        arrows = arrows | new
    return arrows


def test_the_picture_of_the_rules_is_the_graph_of_the_workflow(tmp_path):
    """README leaves out arrows that others imply."""
    call = Project.copied(tmp_path).snakemake("everything", "results/paper/report.html", "--rulegraph", "mermaid-js")
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", call.stdout))
    arrows = {(names[start], names[end]) for start, end in re.findall(r"(id\d+) --> (id\d+)", call.stdout)}
    picture = re.search(r"^```mermaid\n(.*?)^```", text_of("README.md"), re.DOTALL | re.MULTILINE)[1]
    drawn = set()
    for line in re.sub(r"\[.*?\]", "", picture).splitlines():
        groups = [part.replace("&", " ").split() for part in line.split("-->")]
        for starts, ends in itertools.pairwise(groups):
            drawn.update(itertools.product(starts, ends))
    assert drawn <= arrows
    assert with_implied(drawn) == with_implied({arrow for arrow in arrows if "everything" not in arrow})
