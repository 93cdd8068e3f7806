"""Mistakes under Snakemake end before the first job, in one message without a trace, and nothing made is lost."""

import re
from pathlib import Path

import pytest
from project import Project

from samples import full

TABLE = "config/tables/fedsmoo2023_T1.yaml"
CONFIG = "config/config.yaml"
PROTOCOL = "config/protocols/fedsmoo-cifar10.yaml"


def refused(project, *arguments):
    """Call Snakemake, which must refuse before any job, without a trace of Python; return its output."""
    done = project.snakemake(*arguments)
    assert done.returncode != 0
    assert "Traceback (most recent call last)" not in done.text
    assert "Execute" not in done.text
    return done.text


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        (TABLE, lambda table: table["rows"].append("fedsmo"), ["rows", "'fedsmo'", "'fedsmoo'?", "config/algorithms*"]),
        pytest.param(
            *(PROTOCOL, lambda protocol: protocol["preview"].update(round=2), ["preview", "'round'", "'rounds'?"]),
            marks=full,
        ),
    ],
    ids=["table", "protocol"],
)
def test_in_a_file(project, path, change, words):
    before = sorted(path for path in (project.root / "results").rglob("*") if path.is_file())
    project.edit_yaml(path, change)
    text = refused(project)
    assert all(word in text for word in [path, *words])
    assert sorted(path for path in (project.root / "results").rglob("*") if path.is_file()) == before


def test_a_wrong_table_stops_every_call(untouched):
    path = untouched.root / "config/tables/wrong.yaml"
    path.write_text("title: Wrong\nrows: [fedsmo]\ncolumns: [{protocol: fedsmoo-cifar10, splits: [dir0.6-100]}]\n")
    try:
        text = refused(untouched, "results/preview/tables/fedsmoo2023_T1.md")
    finally:
        path.unlink()
    assert "config/tables/wrong.yaml: rows[0]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'?" in text


@full
def test_a_protocol_without_parameters_of_its_own_is_none(project):
    """Its algorithms have their defaults: other runs than before, for `check` and Snakemake alike."""
    runs = project.planned("--forceall")["train"]
    for key in ("algorithms", "searched", "tune", "variants"):
        project.edit_yaml(PROTOCOL, lambda protocol, key=key: protocol.pop(key, None))
    project.edit_yaml(PROTOCOL, lambda protocol: protocol["preview"].pop("algorithms", None))
    for folder in ("tables", "figures"):  # others name the variants
        for path in (project.root / "config" / folder).glob("*.yaml"):
            if path.stem != "fedsmoo2023_T1":
                path.unlink()
    done = project.flatfed("check")
    assert done.returncode == 0, done.text
    assert project.planned("--forceall")["train"] == runs


def test_in_a_target(untouched):
    text = refused(untouched, "results/preview/cells/fedsmoo2023_T1/cifar10-dir0.6-100/fedsmo.json")
    assert "'fedsmo'" in text and "did you mean 'fedsmoo'?" in text
    text = refused(untouched, "results/preview/tables/fedsmoo_T1.csv")
    assert "'fedsmoo_T1'" in text and "did you mean 'fedsmoo2023_T1'?" in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"scale: preview\n\ttables: []\n", "not YAML: while scanning a plain scalar"),
        pytest.param(b"", "null is nothing (null); expected a mapping", marks=full),
        pytest.param(b"scale: *none\n", "not YAML: found undefined alias", marks=full),
        pytest.param(b"scale: " + 9999 * b"[", "not YAML: ", marks=full),
        pytest.param(b"scale: pr\xe9view\n", "not UTF-8: byte 9 is 0xe9", marks=full),
        pytest.param(b"scale: !!python/name:os.system\n", "not YAML: could not determine a constructor", marks=full),
    ],
    ids=["tab", "empty", "anchor", "nesting", "latin-1", "tag"],
)
def test_in_a_config_yaml_that_snakemake_cannot_read(untouched, content, words):
    path = untouched.root / CONFIG
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        text = refused(untouched)
    finally:
        path.write_bytes(before)
    assert f"{CONFIG}: {words}" in text


def test_on_the_command_line(untouched):
    assert "seeds[0]: nan is not allowed" in refused(untouched, "--config", "seeds=[.nan]")
    text = refused(untouched, "--config", "data={digits: {source: npz, path: nowhere.npz}}")
    assert "nowhere.npz" in text


def test_a_clone_in_a_folder_with_braces(tmp_path):
    (tmp_path / "a{b}c").mkdir()
    text = refused(Project.copied(tmp_path / "a{b}c"), "resources/digits/dataset.json")
    assert "a{b}c: Snakemake formats braces in the path of a workflow; rename the folder" in text


def test_data_that_cannot_be_read_end_before_the_first_training(project):
    (project.root / "broken.npz").write_bytes(b"PK\x03\x04 not really an archive")
    made = (project.root / "resources/digits/images.npy").read_bytes()
    source = "data={digits: {source: npz, path: broken.npz}}"
    done = project.snakemake("--config", source)
    assert done.returncode != 0
    assert "broken.npz" in done.text
    assert "Traceback (most recent call last)" not in done.text
    assert "Train " not in done.text
    assert (project.root / "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed1/run.json").exists()
    assert (project.root / "resources/digits/images.npy").read_bytes() == made


def test_an_algorithm_whose_hook_returns_what_it_should_write_ends_in_its_first_round(project, tmp_path):
    (tmp_path / "fedbad.py").write_text(
        """from flatfed.algorithms.fedavg import FedAvg


class FedBad(FedAvg):
    def aggregate(self, server, uploads, ctx):
        return uploads["w"].mean(dim=0, keepdim=True)
"""
    )
    run = "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedbad/seed1"
    done = project.snakemake("--config", f"algorithm_folders=[{tmp_path}]", "--", f"{run}/run.json")
    assert done.returncode != 0 and "Traceback" not in done.text
    assert f"flatfed train: {tmp_path}/fedbad.py: FedBad.aggregate: returned a tensor " in done.text
    assert re.search(
        r"Error in rule train:\n +message: Train fedbad on dir0.6-100 of fedsmoo-cifar10, seed 1", done.text
    )
    complete = Path(re.search(r"Complete log\(s\): (\S+)", done.text)[1]).read_text()
    assert '"algorithm": "fedbad"' not in done.text and '"algorithm": "fedbad"' in complete, "the command is in the log"
    assert not (project.root / run / "run.json").exists()
