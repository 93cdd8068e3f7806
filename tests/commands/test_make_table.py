"""``flatfed table --runs``: a table from metrics and records alone; runs that do not fit are listed."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed.data import manifest
from flatfed.plan import numbers
from flatfed.runs import record as records
from flatfed.tables import cells
from repository import ROOT, SRC
from shipped import EXP

PUBLISHED = ROOT / "results" / "published" / "cifar10-cnn"
PROTOCOL, SPLIT = "fedsmoo-cifar10", "path3-100"
LOW = {"protocol": f"{PROTOCOL}~bfloat16", "precision": "bfloat16"}

#: A process that fails where torch or Snakemake was imported.
BARE = """
import sys
from flatfed import cli
code = cli.main()
sys.exit(code or sorted({"torch", "snakemake"} & {*sys.modules}) or 0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the published runs; the current folder has no configuration and no data."""
    shutil.copytree(PUBLISHED / "runs", tmp_path / "copy" / "runs")
    monkeypatch.chdir(tmp_path)
    return Path("copy/runs/dir0.6-100")


@pytest.fixture
def make(call):
    """Yield a function that makes a table of ``copy`` and returns its cells by row and column, its text and stderr."""

    def make(*words, table="cifar10_cnn", expected=0):
        status, out, err = call("table", table, "--runs", "copy", "--out", "out", *words)
        assert status == expected, err
        lines = csv.DictReader(Path(f"out/{table}.csv").read_text().splitlines())
        return {(line["row"], line["column"]): line for line in lines}, out, err

    return make


def change(folder: Path, **values) -> None:
    """Write other values into a record, with valid seals."""
    path = folder / records.RECORD
    records.write(path, records.read(path).model_copy(update=values), (folder / records.METRICS,))


def config(folder: Path, **changes):
    return records.read_finished(folder).config.changed(**changes)


def test_the_published_table_is_reproduced_byte_for_byte(folder):
    """Without torch, Snakemake, data or partitions."""
    before = sorted(Path("copy").rglob("*"))
    command = [sys.executable, "-c", BARE, "table", "cifar10_cnn", "--runs", "copy", "--out", "out"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True)
    summary = "cifar10_cnn, paper scale: n = 2; float32; 45 of 45 rounds (96 runs; 18 others are not of this table)"
    summary += "; data not compared\n"
    assert (done.returncode, done.stderr) == (0, summary)
    names = {f"cifar10_cnn.{ending}" for ending in ("csv", "md", "tex", "html")}
    assert {path.name for path in Path("out").iterdir()} == names
    for name in names:
        assert Path("out", name).read_bytes() == (PUBLISHED / name).read_bytes(), name
    assert done.stdout == Path("out/cifar10_cnn.md").read_text()
    assert sorted(Path("copy").rglob("*")) == before


def test_the_records_count_the_images_and_not_the_data_of_this_machine(folder, make):
    for path in Path("copy").rglob(records.RECORD):
        change(path.parent, images={"train": 600, "test": 20}, dataset_digest="b1ac" * 16)
    about = {"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "train": 5, "test": 5, "domains": None}
    other = manifest.Manifest(**about, source={"source": "npz"}, digest="0" * 64, bytes=30720)
    manifest.write("resources/cifar10/dataset.json", other)
    text = make()[1]
    assert "CIFAR-10 (620 of 60,000 images of 32x32), 100 clients" in text
    assert text.count("these may not be the published images: their digest b1acb1acb1ac is unknown") == 1


def test_a_missing_run_is_counted_and_not_read_from_elsewhere(folder, make):
    lost = Path("results/paper/runs/fedsmoo-cifar10~cnn/dir0.6-100/fedavg/seed1")
    shutil.move(folder / "fedavg/seed1", lost)
    found, _, err = make()
    assert "n = 1 to 2; float32; 45 of 45 rounds (95 runs;" in err
    problems = {key: cell["problems"] for key, cell in found.items() if cell["status"] != "ok"}
    assert problems == {("fedavg", "dir0.6-100"): f"{lost} has no run.json"}
    found = make("--so-far")[0]
    cell = found["fedavg", "dir0.6-100"]
    assert (cell["status"], cell["n"], cell["seeds"]) == ("ok", "1", "2"), "the seeds that are there"


def test_of_several_folders_the_first_that_has_a_run_serves(folder, make):
    row = Path("more/runs/dir0.6-100/fedavg")
    shutil.copytree(folder / "fedavg", row)
    shutil.rmtree(folder / "fedavg/seed2")
    found, _, err = make("--runs", "copy", "more")
    cell = found["fedavg", "dir0.6-100"]
    assert (cell["status"], cell["seeds"]) == ("ok", "1;2")
    assert f"not shown: {row}/seed1: not used: copy/" in err and f"not shown: {row}/seed2" not in err


def test_a_damaged_run_is_left_out_and_the_command_fails_after_the_table(folder, make):
    run = folder / "fedavg/seed1"
    (run / records.METRICS).write_text("round")
    found, _, err = make(expected=2)
    assert found["fedavg", "dir0.6-100"]["status"] == "missing" and f"\nnot shown: {run}: " in err
    assert err.splitlines()[-1] == f"flatfed table: left out as damaged: {run}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fedsmoo2023_T1 --runs copy", "copy: no run of table fedsmoo2023_T1 among 114 finished ones; --so-far reads"),
        ("cifar10_cn --runs copy", "did you mean 'cifar10_cnn'?"),
        ("cifar10_cnn --runs nowhere", "--runs: there is no folder 'nowhere' ("),
        ("cifar10_cnn --runs empty", "--runs: 'empty' contains no run, no folder with run.json or run.so-far.json"),
        ("cifar10_cnn --so-far", "--so-far needs --runs FOLDER"),
    ],
)
def test_a_folder_without_a_run_of_the_table_is_refused(folder, call, words, message):
    Path("empty/foreign").mkdir(parents=True)
    Path("empty/foreign/results.csv").write_text("round,test_accuracy")
    status, _, err = call("table", *words.split(), "--out", "out")
    assert status == 2 and message in err and not Path("out").exists()


def write(algorithm: str, accuracies: list[float], folder: str = "copy", seed: int = 1, **changes) -> Path:
    """Write a run of 800 rounds with ``accuracies``, finished if these are as many; return its folder."""
    about = {**EXP.run("paper", PROTOCOL, SPLIT, algorithm, seed).config.as_json(), **changes}
    rounds = list(range(1, len(accuracies) + 1))
    sent = {name: [1000 * number for number in rounds] for name in ("download_bytes", "upload_bytes")}
    write = made.run if len(rounds) == about["rounds"] else made.so_far
    place = Path(folder, about["protocol"], SPLIT, algorithm, f"seed{seed}")
    return Path(write(place, {"round": rounds, "test_accuracy": accuracies, **sent}, settings=about))


@pytest.fixture
def so_far(tmp_path, monkeypatch, make):
    """Yield a function that returns the cells by row and target or column, the rows' texts by label, and stderr.

    FedCM is at round 4 of 800 and reached 68 % in round 3; FedAvg is at round 2; FedSMOO is finished.
    """
    monkeypatch.chdir(tmp_path)

    def unsmoothed(number, **changes):
        """These few rounds have no mean of 21."""
        return replace(number, **{key: 1 if key == "smoothing" else value for key, value in changes.items()})

    monkeypatch.setattr(numbers, "replace", unsmoothed)
    write("fedcm", [0.1, 0.5, 0.69, 0.6])
    write("fedavg", [0.1, 0.2])
    write("fedsmoo", [0.5] * 143 + [0.68] * 50 + [0.80] * 607)

    def so_far(*words, table="fedsmoo2023_T6"):
        found, out, err = make(*(words or ["--so-far"]), table=table)
        lines = [line.strip("|").split("|") for line in out.splitlines() if line.startswith("|")]
        texts = {label.strip(): [text.strip() for text in texts] for label, *texts in lines}
        return {(row, column.rpartition("-")[2]): cell for (row, column), cell in found.items()}, texts, err

    return so_far


def test_a_target_that_was_reached_counts_and_one_that_was_not_takes_more_rounds(so_far):
    """Numbers of the last round wait for it."""
    found, texts, _ = so_far()
    assert texts["FedCM"] == ["**3**", "96", "−93", ">4", "442", ""]
    assert texts["FedAvg"] == [">2", "246", "", ">2", "723", ""]
    assert texts["FedSMOO"] == ["144", "144", "+0", "194", "194", "+0"]
    waiting, keys = found["fedcm", "t2"], ("status", "rounds", "reached", "agreement", "value")
    assert [waiting[key] for key in keys] == ["unfinished", "4", "0/1", "missing", ""]
    assert found["fedavg", "t1"]["runs"] == f"results/paper/runs/{PROTOCOL}/{SPLIT}/fedavg/seed1"
    assert "- Shown: 2 of its 16 columns.\n" in Path("out/fedsmoo2023_T6.md").read_text()
    found, texts, _ = so_far("--so-far", table="fedsmoo2023_T1")
    values = {row: cell["value"] for (row, _), cell in found.items() if cell["status"] != "missing"}
    assert values == {"fedsmoo": "0.8", "fedavg": "", "fedcm": ""}
    assert (texts["FedCM"][0], texts["FedAvg"][0], texts["FedAdam"][0]) == ("round 4", "round 2", "")


def test_a_cell_is_in_the_precision_of_its_longest_run(so_far):
    """All its seeds; the other runs are listed. Refused runs do not count, finished runs go before longer ones."""
    for seed in (1, 2):
        write("feddyn", [0.7] * 9, seed=seed, **LOW)
    write("feddyn", [0.7] * 8, seed=2)
    write("fedcm", [0.7] * 3, **LOW)
    found, _, err = so_far()
    runs = {row: (found[row, "t1"]["value"], found[row, "t1"]["runs"].count("~b")) for row in ("feddyn", "fedcm")}
    assert runs == {"feddyn": ("1.0", 2), "fedcm": ("3.0", 0)} and found["feddyn", "t1"]["seeds"] == "1;2"
    for label, other, name in (("~bfloat16", "", "fedcm/seed1"), ("", "~bfloat16", "feddyn/seed2")):
        unused, used = (f"copy/{PROTOCOL}{part}/{SPLIT}/{name}" for part in (label, other))
        assert f"not shown: {unused}: not used: {used} is used" in err
    write("fedcm", [0.7] * 9, **LOW, learning_rate=0.2)
    write("fedsmoo", [0.7] * 799, **LOW)
    found, _, err = so_far()
    assert (found["fedcm", "t1"]["value"], found["fedsmoo", "t1"]["value"]) == ("3.0", "144.0")
    assert "1 others are not of this table" in err


def test_a_cell_without_a_number_has_no_mark_of_precision(so_far):
    """FedAdam has no run, its base row FedAvg has one in bfloat16."""
    write("fedavg", [0.7] * 9, **LOW)
    _, texts, _ = so_far("--so-far", table="fedsmoo2023_T3")
    assert "†" in "".join(texts["FedAvg"]) and "†" not in "".join(texts["FedAdam"])
    (row,) = (line for line in Path("out/fedsmoo2023_T3.tex").read_text().splitlines() if line.startswith("FedAvg &"))
    marks = (row.count(mark) for mark in (r"$\dagger$", r"\rlap{\,$\dagger$}"))
    assert len({*marks}) == 1, "marks take no width"


@pytest.mark.parametrize("stage", ["the summary", "the cells"])
def test_a_run_that_writes_its_next_rounds_meanwhile_is_read_again(so_far, monkeypatch, stage):
    """A training replaces its lines, then its record: what is read between the two does not fit."""
    record = Path("copy", PROTOCOL, SPLIT, "fedcm/seed1", records.RECORD_SO_FAR)
    old = record.read_bytes()
    write("fedcm", [0.1, 0.5, 0.69, 0.6, 0.7])
    new, fill = record.read_bytes(), cells.fill

    def fill_meanwhile(*arguments, **options):
        record.write_bytes(old)
        return fill(*arguments, **options)

    if stage == "the summary":
        record.write_bytes(old)
    else:
        monkeypatch.setattr(cells, "fill", fill_meanwhile)
    monkeypatch.setattr(records.time, "sleep", lambda seconds: record.write_bytes(new))
    found, _, err = so_far()
    assert found["fedcm", "t1"]["status"] == "ok" and "not shown" not in err
