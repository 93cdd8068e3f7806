"""Mistakes and hostile texts under Snakemake: one message without a trace, no job, nothing outside the folders."""

import html
import json

import numpy as np
import pytest
from project import RUNS, TABLE, Project, log_of

from samples import full, sampled

CELLS = f"results/preview/cells/{TABLE}"

#: On the command line: its last word, a part of the message.
IN_CALLS = {
    "row": (f"{CELLS}/cifar10-dir0.6-100/fedsmo.json", "did you mean 'fedsmoo'?"),
    "folder": ("results/preview/runs/../../../../x/seed1/run.json", "No rule to produce"),
    "seed": (f"{RUNS}/fedavg/seed4294967296/run.json", "expected 1 to 4294967295"),
}


def files(project):
    own = {".snakemake", "__pycache__", ".schema"}
    return {path for path in project.root.parent.rglob("*") if not own & set(path.parts)}


def test_a_mistake_in_a_file_stops_every_call(untouched):
    file = untouched.root / "config/tables/wrong.yaml"
    file.write_text("title: Wrong\nrows: [fedsmo]\ncolumns: [{protocol: fedsmoo-cifar10, splits: [dir0.6-100]}]\n")
    try:
        text = untouched.refused(f"results/preview/tables/{TABLE}.md")
    finally:
        file.unlink()
    assert "wrong.yaml: rows[0]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'?" in text and "Execute" not in text


@pytest.mark.parametrize("name", sampled(IN_CALLS, ["row"]))
def test_a_mistake_in_a_call_makes_nothing(untouched, name):
    word, words = IN_CALLS[name]
    before = files(untouched)
    text = untouched.refused("--", word)
    assert words in text and "Execute" not in text
    assert files(untouched) == before


@full
def test_a_clone_in_a_folder_with_braces(tmp_path):
    text = Project.copied(tmp_path / "a{b}c").refused("resources/digits/dataset.json")
    assert "a{b}c: Snakemake formats braces in the path of a workflow; rename the folder" in text


@full
def test_paths_and_a_header_are_taken_literally(tmp_path):
    evil = """a'b" $(touch pwned) `touch pwned`; touch pwned & {x} %s \\ *"""
    place = Project.copied(tmp_path / "it's $(touch pwned); here")
    images, labels = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 10
    data = place.root / f"{evil.replace('{x}', '')}.npz"  # braces are refused: an input with them is a pattern
    with open(data, "wb") as file:
        np.savez(file, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    table = "fedlesam2024_T7"
    place.edit_yaml(
        f"config/tables/{table}.yaml",
        lambda content: content.update(row_header=evil, rows=content["rows"][:1], columns=content["columns"][:1]),
    )
    source = json.dumps({"digits": {"source": "npz", "path": data.name, "images": {"train": 20, "test": 20}}})
    before = files(place)
    targets = ("resources/digits/dataset.json", f"results/preview/tables/{table}.csv")
    place.make("--config", f"data={source}", "--", *targets)
    manifest = json.loads((place.root / "resources/digits/dataset.json").read_text())
    assert (manifest["source"], manifest["train"]) == ({"source": "npz"}, 20), "read from there"
    assert evil in html.unescape((place.root / f"results/preview/tables/{table}.html").read_text())
    made = {path.relative_to(place.root).parts[0] for path in files(place) - before}
    assert made == {"results", "resources", "logs"}


@full
def test_a_failing_training_shows_its_message_and_is_tried_as_often_as_the_profile_says(project, tmp_path):
    """With the profile for clusters: a rule's own number would go before the profile's."""
    (tmp_path / "fedbad.py").write_text(
        """from flatfed.algorithms.fedavg import FedAvg


class FedBad(FedAvg):
    def aggregate(self, server, uploads, ctx):
        return uploads["w"].mean(dim=0, keepdim=True)
"""
    )
    run = f"{RUNS}/fedbad/seed1/run.json"
    here = ("--workflow-profile", "profiles/slurm", "--executor", "local")
    text = project.refused(*here, "--config", "device=cpu", f"folders=[{tmp_path}]", "--", run)
    assert text.count("Trying to restart job") == 4
    assert f"flatfed train: {tmp_path}/fedbad.py: FedBad.aggregate: returned a tensor " in text
    assert text.count(f"\n{log_of(run.rpartition('/')[0])}: flatfed train: ") == 1, "at the end of the call"
    assert not (project.root / run).exists()
