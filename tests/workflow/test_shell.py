"""Free texts of the configuration reach their command as they are; nothing leaves results/ and resources/."""

import html
import json

import numpy as np
import pytest
from project import Project

from samples import full

TABLE = "fedsmoo2023_T4"
RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
EVIL = """a'b" $(touch pwned) `touch pwned`; touch pwned & {x} %s \\ *"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the project in a folder whose name a shell would take apart."""
    root = tmp_path_factory.mktemp("place") / "it's $(touch pwned); here"
    root.mkdir()
    return Project.copied(root)


def files(project):
    own = {".snakemake", "__pycache__"}
    return {path for path in project.root.parent.rglob("*") if not own & set(path.parts)}


def test_a_path_and_a_title_are_taken_literally(place):
    images = np.zeros((20, 8, 8), np.uint8)
    labels = np.arange(20) % 10
    data = place.root / f"{EVIL.replace('{x}', '')}.npz"  # braces are refused: an input with them is a pattern
    with open(data, "wb") as file:
        np.savez(file, train_images=images, train_labels=labels, test_images=images, test_labels=labels)

    def shrink(table):
        table.update(title=EVIL, rows=table["rows"][:1], columns=table["columns"][:1])

    place.edit_yaml(f"config/tables/{TABLE}.yaml", shrink)
    source = json.dumps({"digits": {"source": "npz", "path": data.name, "images": {"train": 20, "test": 20}}})
    before = files(place)
    place.make(
        "--config", f"data={source}", "--", "resources/digits/dataset.json", f"results/preview/tables/{TABLE}.csv"
    )
    manifest = json.loads((place.root / "resources/digits/dataset.json").read_text())
    assert (manifest["source"], manifest["train"]) == ({"source": "npz"}, 20), "read from there"
    assert EVIL in html.unescape((place.root / f"results/preview/tables/{TABLE}.html").read_text())
    made = {path.relative_to(place.root).parts[0] for path in files(place) - before}
    assert made == {"results", "resources", "logs"}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("results/preview/runs/../../../../x/seed1/run.json", "no rule makes it"),
        pytest.param(f"results/preview/cells/{TABLE}/a;touch x/digits.json", "unknown column 'a;touch x'", marks=full),
        pytest.param(f"{RUNS}/fedavg/seed01/run.json", "no rule makes it", marks=full),
        pytest.param(f"{RUNS}/fedavg/seed4294967296/run.json", "expected 1 to 4294967295", marks=full),
        pytest.param("resources/../dataset.json", "No rule to produce dataset.json", marks=full),
        ("resources/weights/$(touch pwned).safetensors", "unknown weights '$(touch pwned)'; known: vit_b32-imagenet"),
    ],
)
def test_a_target_that_would_lead_elsewhere_is_refused(place, target, words):
    before = files(place)
    assert words in place.refused("--", target)
    assert files(place) == before
