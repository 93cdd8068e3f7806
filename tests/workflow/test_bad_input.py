"""Mistakes under Snakemake end before the first job, in one message without a trace, and nothing made is lost."""

import re
from pathlib import Path

import pytest
from project import SPLIT, Project

from samples import full

CONFIG = "config/config.yaml"
WRONG = "config/tables/wrong.yaml"
TABLE = b"title: Wrong\nrows: [fedsmo]\ncolumns: [{protocol: fedsmoo-cifar10, splits: [dir0.6-100]}]\n"
RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (WRONG, TABLE, "rows[0]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'?"),
        (CONFIG, b"scale: preview\n\ttables: []\n", "not YAML: while scanning a plain scalar"),
        pytest.param(CONFIG, b"", "null is nothing (null); expected a mapping", marks=full),
        pytest.param(CONFIG, b"scale: *none\n", "not YAML: found undefined alias", marks=full),
        pytest.param(CONFIG, b"scale: " + 9999 * b"[", "not YAML: ", marks=full),
        pytest.param(CONFIG, b"scale: pr\xe9view\n", "not UTF-8: byte 9 is 0xe9", marks=full),
        pytest.param(CONFIG, b"scale: !!python/name:os.system\n", "not YAML: could not determine", marks=full),
    ],
    ids=["table", "tab", "empty", "anchor", "nesting", "latin-1", "tag"],
)
def test_in_a_file(untouched, path, content, words):
    """A wrong table stops every call."""
    file = untouched.root / path
    before = file.read_bytes() if file.exists() else None
    file.write_bytes(content)
    try:
        text = untouched.refused("results/preview/tables/fedsmoo2023_T1.md")
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
    assert f"{path}: {words}" in text and "Execute" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["results/preview/cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedsmo.json"], "did you mean 'fedsmoo'?"),
        (["--config", "seeds=[.nan]"], "seeds[0]: nan is not allowed"),
    ],
)
def test_on_the_command_line(untouched, arguments, words):
    text = untouched.refused(*arguments)
    assert words in text and "Execute" not in text


def test_a_clone_in_a_folder_with_braces(tmp_path):
    (tmp_path / "a{b}c").mkdir()
    text = Project.copied(tmp_path / "a{b}c").refused("resources/digits/dataset.json")
    assert "a{b}c: Snakemake formats braces in the path of a workflow; rename the folder" in text


def test_data_that_cannot_be_read_end_before_the_first_training(project):
    (project.root / "broken.npz").write_bytes(b"PK\x03\x04 not really an archive")
    made = (project.root / "resources/digits/images.npy").read_bytes()
    text = project.refused("--config", "data={digits: {source: npz, path: broken.npz}}")
    assert "broken.npz" in text and "Train " not in text
    assert (project.root / RUNS / "fedavg/seed1/run.json").exists()
    assert (project.root / "resources/digits/images.npy").read_bytes() == made


def test_an_algorithm_whose_hook_returns_what_it_should_write_ends_in_its_first_round(project, tmp_path):
    (tmp_path / "fedbad.py").write_text(
        """from flatfed.algorithms.fedavg import FedAvg


class FedBad(FedAvg):
    def aggregate(self, server, uploads, ctx):
        return uploads["w"].mean(dim=0, keepdim=True)
"""
    )
    run = f"{RUNS}/fedbad/seed1/run.json"
    text = project.refused("--config", f"algorithm_folders=[{tmp_path}]", "--", run)
    assert f"flatfed train: {tmp_path}/fedbad.py: FedBad.aggregate: returned a tensor " in text
    assert re.search(r"Error in rule train:\n +message: Train fedbad on dir0.6-100 of fedsmoo-cifar10, seed 1", text)
    complete = Path(re.search(r"Complete log\(s\): (\S+)", text)[1]).read_text()
    assert '"algorithm": "fedbad"' not in text and '"algorithm": "fedbad"' in complete, "the command is in the log"
    assert not (project.root / run).exists()
