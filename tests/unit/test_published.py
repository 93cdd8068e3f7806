"""``flatfed published``: what was published is made again from its metrics and records, and slips in it are refused."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flatfed import cli
from flatfed.data import manifest
from flatfed.runs import record as records
from flatfed.runs.places import DEFAULT, PublishedPlaces, RunIds

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "results" / "published" / "cifar10-cnn"
ONE, OTHER = "runs/dir0.6-100/fedavg/seed1", "runs/dir0.6-100/fedsmoo/seed1"

#: A process that fails where torch or Snakemake was imported.
BARE = """
import sys
from flatfed import cli
code = cli.main()
sys.exit(code or sorted({"torch", "snakemake"} & {*sys.modules}) or 0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the published runs, in a folder in which nothing else lies: no configuration, no data."""
    shutil.copytree(PUBLISHED / "runs", tmp_path / "copy" / "runs")
    monkeypatch.chdir(tmp_path)
    return Path("copy")


def make(*arguments: str) -> int:
    return cli.main(["published", "copy", "--out", "out", *arguments])


def change(folder: Path, **values) -> None:
    """Write a record anew with other values, with sums of itself and its files."""
    path = folder / records.RECORD
    records.write(path, replace(records.read(path), **values), (folder / records.METRICS,))


def test_what_is_published_is_made_again_byte_for_byte(folder):
    """Without torch, Snakemake, data or partitions; the picture's bytes are those of one version of matplotlib."""
    before = sorted(folder.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", BARE, "published", "copy", "--out", "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for ending in ("csv", "md", "tex", "html"):
        made = Path("out", f"cifar10_cnn.{ending}").read_bytes()
        assert made == (PUBLISHED / f"cifar10_cnn.{ending}").read_bytes(), ending
    assert {path.name for path in Path("out").iterdir()} == {path.name for path in PUBLISHED.glob("cifar10_cnn.*")}
    assert "32 of 65 claims held (chance gives 32.5; 0 clearly)" in done.stdout, "two seeds can tell none"
    assert "\n    held             fedsmoo > fedavg (4 columns, p = 1)\n" in done.stdout, "every claim is listed"
    assert sorted(folder.rglob("*")) == before


def test_images_are_those_that_the_records_count_whatever_lies_on_this_machine(folder, capsys):
    for path in folder.rglob(records.RECORD):
        change(path.parent, images={"train": 600, "test": 20})
    about = {"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "train": 5, "test": 5, "domains": None}
    other = manifest.Manifest(**about, source={"source": "npz"}, digest="0" * 64, bytes=30720)
    manifest.write("resources/cifar10/dataset.json", other)
    assert make("--table", "cifar10_cnn") == 0, capsys.readouterr().err
    text = Path("out/cifar10_cnn.md").read_text()
    assert "CIFAR-10 (620 of 60,000 images of 32x32), 100 clients" in text


def test_a_run_that_is_missing_is_counted_and_not_taken_from_elsewhere(folder, capsys):
    lost = Path("results/paper/runs/fedsmoo-cifar10~cnn/dir0.6-100/fedavg/seed1")
    shutil.move(folder / ONE, lost)
    assert make() == 2
    assert "95 runs, and no table or figure of which every run is there" in capsys.readouterr().err
    assert make("--table", "cifar10_cnn") == 0
    lines = Path("out/cifar10_cnn.csv").read_text().splitlines()
    cells = {(cell["row"], cell["column"]): cell for cell in csv.DictReader(lines)}
    assert [key for key, cell in cells.items() if cell["status"] != "ok"] == [("fedavg", "dir0.6-100")]
    assert f"copy/{lost} has no run.json" in cells["fedavg", "dir0.6-100"]["problems"]


def edited(folder: Path) -> None:
    change(folder / ONE)
    path = folder / ONE / records.METRICS
    path.write_text(path.read_text().replace("0.5347", "0.9347"))


def cut(folder: Path) -> None:
    path = folder / ONE / records.METRICS
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    change(folder / ONE)


def swapped(folder: Path) -> None:
    for here, there in ((ONE, "aside"), (OTHER, ONE), ("aside", OTHER)):
        (folder / here).rename(folder / there)


def twice(folder: Path) -> None:
    shutil.copytree(folder / ONE, folder / "more" / ONE)


def described(folder: Path) -> None:
    change(folder / ONE, description={**records.read_finished(folder / ONE).description, "learning_rate": 0.2})


def unnamed(folder: Path) -> None:
    about = records.read_finished(folder / ONE).description
    change(folder / ONE, description={**about, "seed": "1"})


def preview(folder: Path) -> None:
    change(folder / ONE, description={**records.read_finished(folder / ONE).description, "scale": "preview"})


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (edited, f"copy/{ONE}/metrics.csv: is not the file that run.json beside it was written with"),
        (cut, f"copy/{ONE}/metrics.csv: ends with round 42, but run.json beside it says rounds_done 45"),
        (described, f"copy/{ONE}/run.json: not the run that is asked for: learning_rate is 0.2, here 0.1"),
        (swapped, f"copy/{ONE}/run.json: is of another run: fedsmoo, here fedavg"),
        (twice, f"copy/{ONE}/run.json: is the same run as copy/more/{ONE}/run.json"),
        (
            unnamed,
            f'copy/{ONE}/run.json: not the record of a run (description.seed: "1" is not a whole number from 0 up)',
        ),
        (preview, "the two scales are published apart"),
        (
            lambda folder: change(folder / ONE, partition_digest="0" * 64),
            "partition_digest is 000000000000, but",
        ),
        (
            lambda folder: change(folder / OTHER, dataset_digest="0" * 64),
            "they were trained on different data, both cifar10",
        ),
        (lambda folder: (folder / ONE / "run.json").write_text("{"), f"copy/{ONE}/run.json: not the record of a run"),
        (lambda folder: shutil.rmtree(folder / "runs"), "copy: no run.json in there"),
    ],
)
@pytest.mark.parametrize("what", ["--table", "--figure"])
def test_slips_are_refused_by_name(folder, capsys, slip, words, what):
    slip(folder)
    assert make(what, "cifar10_cnn") == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists() or not any(Path("out").iterdir())


def test_what_the_folder_is_not_of_is_refused(folder, capsys):
    for arguments, words in (
        (["--table", "fedsmoo2023_T1"], "96 runs are of fedsmoo-cifar10~cnn, paper scale"),
        (["--figure", "fedsmoo2023_F7"], "holds no run of figure fedsmoo2023_F7"),
        (["--figure", "fedsmoo2023_F5"], "figure fedsmoo2023_F5 reads results/paper/partitions/"),
        (["--table", "cifar10_cn"], "did you mean 'cifar10_cnn'?"),
    ):
        assert make(*arguments) == 2
        assert words in capsys.readouterr().err


def test_analyses_of_a_published_run_lie_beside_the_runs():
    ids = RunIds("paper", "p", "s", "a", 1)
    for folder, analyses in (
        ("copy/runs/s/a/seed1", "copy/analysis/s/a/seed1"),
        ("runs/s/a/seed1", "analysis/s/a/seed1"),
        ("runs/copy/runs/s/a/seed1", "runs/copy/analysis/s/a/seed1"),
        ("copy/s/a/seed1", "copy/s/a/seed1"),
    ):
        places = PublishedPlaces("copy/results", folders={DEFAULT.run(ids): folder})
        assert (places.run(ids), places.analyses(ids)) == (folder, analyses)
    other = replace(ids, seed=2)
    assert places.run(other) == "copy/results/paper/runs/p/s/a/seed2", "of a run that is not published"
    assert places.analyses(other) == "copy/results/paper/analysis/p/s/a/seed2"
